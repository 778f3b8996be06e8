"""A model that is written operator by operator: one block, its operators by their registered kinds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, field, fields, replace
from functools import cache
from typing import Any, get_args, get_type_hints

from pydantic import TypeAdapter, ValidationError

from simcluster.deferred_dataclass import dataclass
from simcluster.document import Refused
from simcluster.errors import PlanError, nearest
from simcluster.model.families.single_block import SingleBlockModel
from simcluster.model.graph import Block, BlockBuilder, Graph, Instance, Operator, TensorType, operand_problem
from simcluster.registry import kinds
from simcluster.work import DType

OWN_KEYS = ("op", "name", "inputs")
"""The keys of an entry that no operator is told."""

MEAN = "mean"
"""Stands for one over what the losses of the step are summed over."""

_TRIED = (2, 6)
"""Samples of the micro-batches that are written to try a graph: a shape that holds a number fits one only."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An operator as a document writes it, with its key path."""

    path: str
    name: str
    op: str
    inputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(hash=False)

    def refused(self, message: str, key: str = "", hint: str = "") -> Refused:
        """The error to raise about it, or about one of its keys."""
        return Refused(
            f"'{self.name}' ({self.op}): {message}", path=f"{self.path}.{key}".rstrip("."), hint=hint
        )


@cache
def operator_kinds() -> Mapping[str, type[Operator]]:
    """Every operator that may be written, by its kind."""
    return kinds("simcluster.model.operators", Operator)


def written_operator(entry: Entry, mean: float | None = None) -> Operator:
    """The operator that an entry describes; Refused, with the nearest name, for unknown kinds and attributes.

    ``mean`` is what the word ``mean`` stands for where a number is wanted; None: nothing.
    """
    known = operator_kinds()
    if entry.op not in known:
        raise entry.refused("there is no such operator", "op", nearest(entry.op, known))
    kind = known[entry.op]
    told = {attribute.name: attribute for attribute in fields(kind) if attribute.init}  # type: ignore[arg-type]
    for key in entry.attributes:
        if key not in told:
            hint = nearest(key, told) if told else "it is told nothing"
            raise entry.refused(f"it has no '{key}'", key, hint)
    made: dict[str, Any] = {}
    hints = get_type_hints(kind)
    for key, attribute in told.items():
        if key in entry.attributes:
            made[key] = _value(entry, key, entry.attributes[key], hints[key], mean)
        elif _needed(attribute):
            raise entry.refused(f"'{key}' is missing", "", f"it is told: {', '.join(told)}")
    try:
        return kind(**made)
    except ValueError as error:
        raise entry.refused(str(error)) from None


def _needed(each: Field[Any]) -> bool:
    return each.default is MISSING and each.default_factory is MISSING


def _value(entry: Entry, key: str, written: Any, hint: Any, mean: float | None) -> Any:
    """An attribute's value, read strictly: nothing is converted silently."""
    if written == MEAN and hint is float and mean is not None:
        return mean
    if DType in (hint, *get_args(hint)):
        labels = [dtype.label for dtype in DType]
        if written not in labels:
            raise entry.refused(f"'{written}' is not a number format", key, nearest(str(written), labels))
        return DType.of(written)
    try:
        return TypeAdapter(hint).validate_json(json.dumps(written), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, (key, *first["loc"])))
        wanted = str(hint).replace("typing.", "").replace("<class '", "").replace("'>", "")
        raise entry.refused(f"{first['msg']}, not {written!r}", place, f"wanted: {wanted}") from None


@dataclass(slots=True)
class GraphWriter:
    """Writes entries into a block; ``known`` are the values by the names that inputs call them."""

    build: BlockBuilder
    known: dict[str, str]

    @classmethod
    def of(cls, build: BlockBuilder) -> GraphWriter:
        """With the feeds and parameters that are written already."""
        return cls(build, {name: name for name in build.values})

    def kinds(self, entry: Entry) -> list[TensorType]:
        """The types of what an entry reads; Refused for an unknown name."""
        types = []
        for place, name in enumerate(entry.inputs):
            if name not in self.known:
                key = f"inputs.{place}"
                raise entry.refused(f"nothing before it is called '{name}'", key, nearest(name, self.known))
            types.append(self.build.values[self.known[name]].type)
        return types

    def write(self, entry: Entry, operator: Operator) -> tuple[str, ...]:
        """The results' names; Refused if the operator does not fit what it reads."""
        if entry.name in self.known:
            raise entry.refused("something else is called so already", "name")
        inputs = self.kinds(entry)
        check_operand_types(entry, operator, inputs)
        outputs = self.build.adds(entry.name, operator, *(self.known[name] for name in entry.inputs))
        self.called(entry.name, outputs)
        return outputs

    def called(self, name: str, outputs: Sequence[str]) -> None:
        """Lets later inputs call the first of some values by the name of the operator that makes them."""
        self.known |= {value: value for value in outputs}
        if outputs:
            self.known[name] = outputs[0]


def check_operand_types(entry: Entry, operator: Operator, inputs: Sequence[TensorType]) -> None:
    """Refused, with both sizes, if an operator does not fit tensors of these types."""
    if told := operand_problem(operator, entry.inputs, inputs):
        raise entry.refused(told, "inputs")


@dataclass(frozen=True)
class WrittenGraph(SingleBlockModel):
    """A model as somebody wrote it: feeds (name, shape, bound of ids), parameters (name, shape), operators.

    A shape may hold the words ``batch`` and ``seq``.
    """

    feeds: tuple[tuple[str, tuple[int | str, ...], int | None], ...]
    parameters: tuple[tuple[str, tuple[int, ...]], ...]
    entries: tuple[Entry, ...]
    loss: str

    @property
    def dimensions(self) -> Mapping[str, int]:
        """How many operators it has."""
        return {"operators": len(self.entries)}

    @property
    def fixed_seq_len(self) -> int | None:
        """One, unless a shape depends on it."""
        return None if self._has_sequence else 1

    @property
    def _has_sequence(self) -> bool:
        return any("seq" in shape for _, shape, _ in self.feeds)

    def seq_len_error(self, seq_len: int) -> str:
        """Why it cannot read sequences of this length, or nothing."""
        if self._has_sequence or seq_len == 1:
            return ""
        return f"no shape of this model depends on the sequence: write seq_len: 1, not {seq_len}"

    def check(self) -> None:
        """Refused if it cannot be computed of any number of samples."""
        for tried in _TRIED:
            self._block(tried, tried, DType.FP32, 1.0)

    def graph(self, batch: int, seq_len: int, dtype: DType, num_tokens: float) -> Graph:
        """The forward graph of one micro-batch; the step sums up ``num_tokens`` losses.

        PlanError if an operator does not fit so many samples.
        """
        try:
            block = self._block(batch, seq_len, dtype, num_tokens)
        except Refused as error:
            problems = (replace(problem, path=f"model.graph.{problem.path}") for problem in error.problems)
            raise PlanError(*problems) from None
        return Graph({block.name: block}, (Instance("layers.0", block.name),))

    def _block(self, batch: int, seq_len: int, dtype: DType, num_tokens: float) -> Block:
        build = BlockBuilder("network", dtype)
        sizes = {"batch": batch, "seq": seq_len}
        for name, shape, below in self.feeds:
            local = tuple(sizes[size] if isinstance(size, str) else size for size in shape)
            build.feed(name, TensorType(local, DType.INT64 if below else dtype), below or 0)
        for name, trained in self.parameters:
            if name in build.values:
                raise Refused(f"a feed is called '{name}' already", path=f"parameters.{name}")
            build.parameter(name, trained)
        writer = GraphWriter.of(build)
        for entry in self.entries:
            writer.write(entry, written_operator(entry, 1 / num_tokens))
        return build.block(outputs={}, loss=check_scalar_loss(writer, self.loss))


def check_scalar_loss(writer: GraphWriter, loss: str) -> str:
    """The value that is minimised; Refused if nothing is called so, or it is no scalar."""
    if loss not in writer.known:
        raise Refused(f"nothing is called '{loss}'", path="loss", hint=nearest(loss, writer.known))
    kind = writer.build.values[writer.known[loss]].type
    if kind.shape:
        raise Refused(f"'{loss}' is {kind}; what is minimised is one number", path="loss")
    return writer.known[loss]
