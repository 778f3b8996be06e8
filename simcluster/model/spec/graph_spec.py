"""A graph that a scenario writes operator by operator, as a document has it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from simcluster.document import Name, PositiveInt, Refused, Section
from simcluster.model.families import OWN_KEYS, Entry, WrittenGraph

Shape = tuple[PositiveInt | Literal["batch", "seq"], ...]


class WrittenFeedSpec(Section):
    """An input tensor of every micro-batch: ``{shape: [batch, 784]}``."""

    shape: Annotated[Shape, Field(min_length=1)]
    """Its shape; ``batch`` stands for the samples of a micro-batch over all ranks, ``seq`` for
    training.seq_len."""

    below: PositiveInt | None = None
    """If given, the tensor holds ids from 0 to below this number; if absent, it holds real numbers."""


class WrittenParameterSpec(Section):
    """A trainable tensor: ``{shape: [784, 512]}``."""

    shape: Annotated[tuple[PositiveInt, ...], Field(min_length=1)]
    """Its shape."""


class WrittenGraphSpec(Section):
    """A model given operator by operator: ``{feeds: ..., parameters: ..., operators: [...], loss: ...}``."""

    feeds: Annotated[dict[Name, WrittenFeedSpec], Field(min_length=1)]
    """Input tensors of the batch, by name."""

    parameters: dict[Name, WrittenParameterSpec] = {}
    """Trainable tensors, by name."""

    operators: Annotated[tuple[dict[Name, Any], ...], Field(min_length=1)]
    """Operators in execution order: ``{op: matmul, name: fc1, inputs: [images, fc1.weight], left: [batch,
    in], ...}``. ``inputs`` are names of feeds, of parameters, and of operators for their first result;
    ``fc1.out1`` is the second result of ``fc1``. All other keys are attributes of the operator kind: labels,
    numbers, functions."""

    loss: Name
    """Name of the operator whose result is minimised. If it multiplies by a factor that should be one over
    the samples of the step, the factor may be written as ``mean``."""

    @model_validator(mode="after")
    def _is_possible(self) -> WrittenGraphSpec:
        self.build().check()
        return self

    def build(self) -> WrittenGraph:
        """The model; Refused if an operator is not written as one."""
        return WrittenGraph(
            tuple((name, feed.shape, feed.below) for name, feed in self.feeds.items()),
            tuple((name, parameter.shape) for name, parameter in self.parameters.items()),
            entries(self.operators, "operators", unique=True),
            self.loss,
        )


def numbered(written: Any) -> Any:
    """What is written with whole numbers as keys where it has them as text: JSON knows no other keys."""
    if isinstance(written, dict):
        return {
            int(key) if isinstance(key, str) and key.isdecimal() else key: numbered(value)
            for key, value in written.items()
        }
    return [numbered(item) for item in written] if isinstance(written, list) else written


def entries(written: tuple[dict[str, Any], ...], path: str, *, unique: bool) -> tuple[Entry, ...]:
    """Operators as a document has them; Refused if one lacks ``op`` or ``name``, or, where names are
    ``unique``, two are called alike.
    """
    made: list[Entry] = []
    taken: dict[str, int] = {}
    for place, entry in enumerate(written):
        here = f"{path}.{place}"
        for key in ("op", "name"):
            if not isinstance(entry.get(key), str) or not entry[key]:
                raise Refused(f"an operator needs '{key}'", path=here, hint=f"write {key}: and a word")
        name, inputs = entry["name"], entry.get("inputs", [])
        if unique and name in taken:
            first = f"operator {taken[name]} is called '{name}' already"
            raise Refused(first, path=f"{here}.name", hint="write another name")
        taken[name] = place
        if isinstance(inputs, str):
            inputs = [inputs]
        if not isinstance(inputs, (list, tuple)) or not all(isinstance(value, str) for value in inputs):
            raise Refused("inputs are a list of names", path=f"{here}.inputs")
        attributes = {key: numbered(value) for key, value in entry.items() if key not in OWN_KEYS}
        made.append(Entry(here, name, entry["op"], tuple(inputs), attributes))
    return tuple(made)
