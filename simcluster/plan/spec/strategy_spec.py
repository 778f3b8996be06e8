"""One entry of ``parallel.strategies``, in every form in which it may be written."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BeforeValidator, Field, StrictBool, model_validator

from simcluster.document import Name, PositiveInt, Refused, Section
from simcluster.errors import ScenarioError
from simcluster.layout import MindSporeLayout
from simcluster.model import ATTENTION_CORES
from simcluster.plan.rules import Entry, Operands, StrategyRule

Axes = Name | tuple[Name, ...]

_WHOLE = ("None", "none", "-", "")
_TOKEN = re.compile(r"\s*(?:(?P<open>[(\[])|(?P<close>[)\]])|(?P<comma>,)|(?P<word>[\w.\"'-]+))")
_MOST_NESTED = 4

WrittenEntry = PositiveInt | Name | tuple[Name, ...] | None
WrittenOperands = tuple[tuple[WrittenEntry, ...] | None, ...]


def read_tuple(written: Any, form: str) -> Any:
    """Text such as ``((4, 1), (1, 2))`` as lists; everything else as it is. ValueError if it is no such."""
    if not isinstance(written, str):
        return written
    stack: list[list[Any]] = [[]]
    place = 0
    while place < len(written.rstrip()):
        token = _TOKEN.match(written, place)
        if token is None or len(stack) > _MOST_NESTED:
            raise ValueError(f"'{written}' is no {form}")
        place = token.end()
        if token["open"]:
            stack.append([])
        elif token["close"]:
            if len(stack) == 1:
                raise ValueError(f"'{written}' closes a bracket that it did not open")
            inner = stack.pop()
            stack[-1].append(inner)
        elif token["word"]:
            word = token["word"].strip("\"'")
            stack[-1].append(int(word) if word.isdecimal() else word)
    if len(stack) > 1 or len(stack[0]) != 1 or not isinstance(stack[0][0], list):
        raise ValueError(f"'{written}' is no {form}")
    return stack[0][0]


def read_operands(written: Any) -> Any:
    """Text such as ``((4, 1), (1, 2))`` as lists; everything else as it is."""
    return read_tuple(written, "tuple of tuples such as ((4, 1), (1, 2))")


OperandsField = Annotated[WrittenOperands, BeforeValidator(read_operands)]


class LayoutSpec(Section):
    """A named device matrix, as in MindSpore's ``Layout``; its aliases take the place of mesh axes."""

    device_matrix: Annotated[tuple[PositiveInt, ...], Field(min_length=1)]
    """Number of ranks along each dim, outermost first."""

    alias_name: Annotated[tuple[Name, ...], Field(min_length=1)]
    """Names of these dims, to be used in ``in`` and ``out``."""

    rank_list: tuple[int, ...] | None = None
    """The ranks of a stage in row-major order of the matrix; 0, 1, 2 and so on if absent."""

    @model_validator(mode="after")
    def _is_possible(self) -> LayoutSpec:
        try:
            self.build()
        except ScenarioError as error:
            raise Refused(*error.problems) from None
        return self

    def build(self) -> MindSporeLayout:
        """The layout, of no tensor yet."""
        return MindSporeLayout(self.device_matrix, self.alias_name, self.rank_list)


class StrategySpec(Section):
    """A strategy for the operators whose names match a pattern, by iteration dim or by operand."""

    match: Name
    """Operator names: ``layers.*.mlp.up``, with ``*``, ``?`` and ``{a,b}``."""

    split: dict[Name, Axes] | Annotated[tuple[dict[Name, Axes], ...], Field(min_length=1)] | None = None
    """Iteration dim -> mesh axis, role or list of them, outermost first; of several such maps, the first
    whose dims divide evenly is used. Dims that are not named are not split, except batch, which follows the
    role batch."""

    inputs: OperandsField | None = Field(
        default=None, validation_alias=AliasChoices("in", "in_strategy", "inputs")
    )
    """For each input, a list with one entry per dim: an axis, a list of axes (outermost first), or 1 for not
    split: ``[[data, 1], [1, tensor]]``. Or numbers of parts as in MindSpore's shard(), ``((4, 1), (1, 2))``;
    the device matrix follows from them, and mesh axes are split where necessary. null: this input is left
    open."""

    outputs: OperandsField | None = Field(
        default=None, validation_alias=AliasChoices("out", "out_strategy", "outputs")
    )
    """The same for results, which are redistributed to this layout directly after the operator if they have
    another. null: the layout that follows from the inputs."""

    layout: LayoutSpec | None = None
    """A named device matrix whose aliases are used instead of mesh axes."""

    repeated_on: Literal["left", "right"] | None = None
    """If there are fewer parts than ranks: whether the replicas are along the outermost dim of the device
    matrix (left, as in MindSpore) or are neighbouring ranks (right)."""

    forward_reduce_scatter: StrictBool = False
    """Partial sums of a result are reduce-scattered along its first dim instead of all-reduced."""

    @model_validator(mode="after")
    def _is_one_form(self) -> StrategySpec:
        if (self.split is None) == (self.inputs is None):
            raise Refused(
                "a strategy needs one of split and in",
                path="" if self.split is None else "in",
                hint="write split: {ffn: tensor} or in: [[data, 1], [1, tensor]]",
            )
        if self.layout is not None:
            self._check_aliases(self.layout)
        counted = self.layout is not None or any(
            isinstance(entry, int) and entry > 1
            for dims in (*(self.inputs or ()), *(self.outputs or ()))
            for entry in dims or ()
        )
        if self.repeated_on is not None and not counted:
            raise Refused(
                "axes say themselves which ranks repeat a calculation",
                path="repeated_on",
                hint="it is for numbers of parts: in: [[4, 1], [1, 2]]",
            )
        if self.repeated_on is not None and self.layout is not None:
            raise Refused(
                "the device matrix says itself which ranks repeat a calculation", path="repeated_on"
            )
        if self.forward_reduce_scatter and self.outputs is not None:
            raise Refused(
                "out already gives the layout of results", path="forward_reduce_scatter", hint="leave one out"
            )
        return self

    def _check_aliases(self, layout: LayoutSpec) -> None:
        made = layout.build()
        for split in self.alternatives():
            try:
                made(*split.values())
            except ScenarioError as error:
                raise Refused(*(problem.message for problem in error.problems), path="split") from None
        for key, operands in (("in", self.inputs), ("out", self.outputs)):
            for index, dims in enumerate(operands or ()):
                entries = [_entry(entry) for entry in dims or ()]
                if any(isinstance(entry, int) for entry in entries):
                    raise Refused(
                        "numbers are given where aliases of the layout are expected", path=f"{key}.{index}"
                    )
                try:
                    made(*(entry for entry in entries if isinstance(entry, tuple)))
                except ScenarioError as error:
                    raise Refused(
                        *(problem.message for problem in error.problems), path=f"{key}.{index}"
                    ) from None

    def alternatives(self) -> tuple[dict[str, tuple[str, ...]], ...]:
        """The maps, every entry a tuple of axes."""
        maps = self.split if isinstance(self.split, tuple) else (self.split or {},)
        return tuple(
            {dim: (axes,) if isinstance(axes, str) else axes for dim, axes in split.items()} for split in maps
        )

    def rule(self, source: str, path: str = "") -> StrategyRule:
        """The same as the planner has it."""
        return StrategyRule(
            self.match,
            self.alternatives(),
            source,
            path,
            planner_operands(self.inputs),
            planner_operands(self.outputs),
            self.layout.build() if self.layout else None,
            self.repeated_on or "left",
            self.forward_reduce_scatter,
        )


def planner_operands(written: WrittenOperands | None) -> Operands | None:
    """Layouts of operands as the planner reads them."""
    if written is None:
        return None
    return tuple(None if dims is None else tuple(map(_entry, dims)) for dims in written)


def _entry(written: WrittenEntry) -> Entry:
    """1, null and "None" are a dim that stays whole."""
    if isinstance(written, int):
        return written if written > 1 else ()
    if written is None or written in _WHOLE:
        return ()
    return (written,) if isinstance(written, str) else written


_CORES = f"{ATTENTION_CORES}{{,.*}}"
"""The core of attention as one kernel, or as several."""


def ulysses_entry(sizes: Mapping[str, int], heads: int, kv_heads: int) -> dict[str, Any] | None:
    """The entry of Ulysses (arXiv 2309.14509): heads of attention split over axes of ``sizes``, outermost
    first. None if heads do not divide.

    Axes that split sequences elsewhere exchange them for heads, by all-to-all, around attention. Where there
    are fewer key-value heads than ranks, the innermost axis splits the query heads that share one, and its
    ranks gather keys and values, as they would get repeated ones (kv_head_repeat_before_uly_alltoall of
    MindSpeed, from memory). One key-value head, as of absorbed latent attention, is gathered by all.
    """
    axes = [axis for axis, size in sizes.items() if size > 1]
    if kv_heads == 1:
        return {"match": _CORES, "split": {"group": axes}} if heads % math.prod(sizes.values()) == 0 else None
    if kv_heads % math.prod(sizes.values()) == 0:
        return {"match": _CORES, "split": {"heads": axes}}
    *outer, inner = axes
    if kv_heads % math.prod(sizes[axis] for axis in outer) or heads // kv_heads % sizes[inner]:
        return None
    split = {"heads": outer} if outer else {}
    return {"match": _CORES, "split": {**split, "group": [inner]}}


WHOLE_EXPERTS = {"match": "*layers.*.mlp.experts.*", "split": {"experts": "experts"}}
"""An entry with which experts stay whole on ranks of the tensor axis, which they fill."""


def expert_axes(ranks: int, tensor: int, context: int, *, whole: bool) -> tuple[int, tuple[str, ...]]:
    """The axes that ranks which share experts fill, and how many ranks of the batch's axis each then takes.

    They are neighbours: they fill the tensor axis first, where experts stay ``whole``, then the context axis
    (Megatron-Core, parallel_state: the order tp-cp-ep-dp of expert ranks).
    """
    axes: tuple[str, ...] = ()
    if whole and tensor > 1 and ranks % tensor == 0:
        axes, ranks = ("tensor",), ranks // tensor
    if context > 1 and ranks % context == 0:
        axes, ranks = ("context", *axes), ranks // context
    return ranks, axes
