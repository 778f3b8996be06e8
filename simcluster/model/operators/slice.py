"""Parts of a tensor along some dims, and a tensor with a margin along some: each the other's gradient."""

from __future__ import annotations

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
Cut = tuple[int, int, int, int]
"""Place of a dim, first element, step, and how many elements."""


@dataclass(frozen=True, slots=True)
class _Cutting(Operator):
    """What both share: ``labels`` and ``shape`` of the larger tensor, and where the smaller lies in it.

    Along a dim that is cut the smaller one has a name of its own.
    """

    labels: Labels
    shape: tuple[int, ...]
    cuts: tuple[Cut, ...]

    family: ClassVar[str] = "copy"

    @property
    def _part(self) -> Labels:
        cut = {place for place, *_ in self.cuts}
        return tuple(f"{name}.part" if place in cut else name for place, name in enumerate(self.labels))

    @property
    def _whole(self) -> tuple[tuple[str, str], ...]:
        reason = "where a part begins and ends depends on no rank's share"
        names = [name for place, *_ in self.cuts for name in (self.labels[place], self._part[place])]
        return (*((name, reason) for name in names), *unit_dims(self.labels))

    def _at(self) -> tuple[slice, ...]:
        """Where the smaller tensor lies in the larger."""
        found = [slice(None)] * len(self.labels)
        for place, start, step, count in self.cuts:
            found[place] = slice(start, start + (count - 1) * step + 1, step)
        return tuple(found)

    def _larger(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The larger tensor's shape from a local smaller one's."""
        cut = {place for place, *_ in self.cuts}
        return tuple(self.shape[place] if place in cut else size for place, size in enumerate(shape))


class Slice(_Cutting):
    """The elements ``start, start + step, ...`` along the dims that are cut."""

    __slots__ = ()

    kind: ClassVar[str] = "slice"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """The smaller tensor."""
        shape = list(inputs[0].shape)
        for place, _, _, count in self.cuts:
            shape[place] = count
        return (TensorType(tuple(shape), inputs[0].dtype),)

    def dims(self) -> Dims:
        """Linear."""
        return Dims((self.labels,), (self._part,), self._whole, linear=(frozenset({0}),))

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """Copies what is picked."""
        return (memory_bound(Kernel.COPY, outputs, outputs, accumulate=accumulate),)

    def gradient(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grads: Sequence[Gradient | None]
    ) -> tuple[Gradient | None, ...]:
        """Zeros around."""
        if grads[0] is None:
            return (None,)
        return tape.emit("grad", Pad(self.labels, self.shape, self.cuts), [grads[0]])

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The part."""
        return (np.array(inputs[0][self._at()]),)


@dataclass(frozen=True, slots=True)
class Pad(_Cutting):
    """The larger tensor that holds x at the cuts and ``value`` elsewhere."""

    value: float = 0.0

    kind: ClassVar[str] = "pad"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """The larger tensor."""
        (x,) = inputs
        return (TensorType(self._larger(x.shape), x.dtype),)

    def dims(self) -> Dims:
        """Linear if the margin is zero."""
        linear = () if self.value else (frozenset({0}),)
        return Dims((self._part,), (self.labels,), self._whole, linear=linear)

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """One copy that writes all."""
        return (memory_bound(Kernel.COPY, inputs, outputs, accumulate=accumulate),)

    def gradient(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grads: Sequence[Gradient | None]
    ) -> tuple[Gradient | None, ...]:
        """The part of the gradient that lies where x lay."""
        if grads[0] is None:
            return (None,)
        return tape.emit("grad", Slice(self.labels, self.shape, self.cuts), [grads[0]])

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The larger array."""
        (x,) = inputs
        found = np.full(self._larger(x.shape), self.value, dtype=x.dtype)
        found[self._at()] = x
        return (found,)
