"""Tensors side by side along one dim, and a tensor divided along one."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from simcluster.layout import Dims
from simcluster.model.graph import (
    Array,
    Gradient,
    Operator,
    Region,
    Tape,
    TensorType,
    memory_bound,
    unit_dims,
)
from simcluster.work import Kernel, Work

Labels = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _SideBySide(Operator):
    """What both share: the dims of the whole, the place of the one along which parts lie, and their sizes."""

    labels: Labels
    place: int
    sizes: tuple[int, ...]

    family: ClassVar[str] = "copy"

    @property
    def _parts(self) -> tuple[Labels, ...]:
        """The dims of each part: along the dim every one has a name of its own."""
        name = self.labels[self.place]
        return tuple(
            (*self.labels[: self.place], f"{name}.{index}", *self.labels[self.place + 1 :])
            for index in range(len(self.sizes))
        )

    @property
    def _whole(self) -> tuple[tuple[str, str], ...]:
        reason = "a rank's share of the whole is not made of its shares of the parts"
        names = (self.labels[self.place], *(names[self.place] for names in self._parts))
        return (*((name, reason) for name in names), *unit_dims(self.labels))

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """One copy."""
        return (memory_bound(Kernel.COPY, inputs, outputs, accumulate=accumulate),)


class Concat(_SideBySide):
    """Parts of these sizes one after another along ``labels[place]``."""

    __slots__ = ()

    kind: ClassVar[str] = "concat"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """The whole."""
        shape = list(inputs[0].shape)
        shape[self.place] = sum(self.sizes)
        return (TensorType(tuple(shape), inputs[0].dtype),)

    def dims(self) -> Dims:
        """Jointly linear in all parts."""
        every = frozenset(range(len(self.sizes)))
        return Dims(self._parts, (self.labels,), self._whole, linear=(every,))

    def gradient(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grads: Sequence[Gradient | None]
    ) -> tuple[Gradient | None, ...]:
        """The parts of the gradient."""
        if grads[0] is None:
            return (None,) * len(self.sizes)
        return tape.emit("grad", Split(self.labels, self.place, self.sizes), [grads[0]])

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The whole."""
        return (np.concatenate(list(inputs), axis=self.place),)


class Split(_SideBySide):
    """The parts of these sizes along ``labels[place]``."""

    __slots__ = ()

    kind: ClassVar[str] = "split"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """The parts."""
        (x,) = inputs
        before, after = x.shape[: self.place], x.shape[self.place + 1 :]
        return tuple(TensorType((*before, size, *after), x.dtype) for size in self.sizes)

    def dims(self) -> Dims:
        """Linear."""
        return Dims((self.labels,), self._parts, self._whole, linear=(frozenset({0}),))

    def gradient(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grads: Sequence[Gradient | None]
    ) -> tuple[Gradient | None, ...]:
        """The gradients of the parts that have one side by side, zeros between them."""
        live = [index for index, grad in enumerate(grads) if grad is not None]
        if not live:
            return (None,)
        if len(live) == len(self.sizes):
            return tape.emit(
                "grad", Concat(self.labels, self.place, self.sizes), [str(each) for each in grads]
            )
        operator = PlacedParts(self.labels, self.place, self.sizes, tuple(live))
        return tape.emit("grad", operator, [str(grads[index]) for index in live])

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The parts."""
        ends = list(itertools.accumulate(self.sizes))
        return tuple(np.array(each) for each in np.split(inputs[0], ends[:-1], axis=self.place))


@dataclass(frozen=True, slots=True)
class PlacedParts(_SideBySide):
    """The whole made of the parts that are ``given``, by number, and zeros where the others would lie."""

    given: tuple[int, ...] = ()

    kind: ClassVar[str] = "placed_parts"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """The whole."""
        shape = list(inputs[0].shape)
        shape[self.place] = sum(self.sizes)
        return (TensorType(tuple(shape), inputs[0].dtype),)

    def dims(self) -> Dims:
        """Jointly linear in the parts."""
        parts = tuple(self._parts[index] for index in self.given)
        names = {self.labels[self.place], *(names[self.place] for names in parts)}
        whole = tuple(each for each in self._whole if each[0] in names or each in unit_dims(self.labels))
        return Dims(parts, (self.labels,), whole, linear=(frozenset(range(len(parts))),))

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The whole, zeros between the parts."""
        shape = list(inputs[0].shape)
        shape[self.place] = sum(self.sizes)
        found = np.zeros(shape, dtype=inputs[0].dtype)
        starts = [0, *itertools.accumulate(self.sizes)]
        for index, array in zip(self.given, inputs, strict=True):
            at: list[slice] = [slice(None)] * len(shape)
            at[self.place] = slice(starts[index], starts[index + 1])
            found[tuple(at)] = array
        return (found,)
