"""Parts of a tensor along some dims, and a tensor with a margin along some: each the other's gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Dims
from simcluster.model.graph import Array, Labels, Operator, Region, TensorType, memory_bound
from simcluster.model.operators.view import View
from simcluster.work import Kernel, Work

Cut = tuple[int, int, int, int]
"""Place of a dim, first element, step, and how many elements."""


@dataclass(frozen=True, slots=True)
class _Cutting(View):
    """What both share: ``labels`` and ``shape`` of the larger tensor, and where the smaller lies in it.

    Along a dim that is cut the smaller one has a name of its own.
    """

    shape: tuple[int, ...]
    cuts: tuple[Cut, ...]

    @property
    def _part(self) -> Labels:
        cut = {place for place, *_ in self.cuts}
        return tuple(f"{name}.part" if place in cut else name for place, name in enumerate(self.labels))

    @property
    def _whole(self) -> tuple[tuple[str, str], ...]:
        names = [name for place, *_ in self.cuts for name in (self.labels[place], self._part[place])]
        return self.unsplittable("where a part begins and ends depends on no rank's share", *names)

    def _at(self) -> tuple[slice, ...]:
        """Where the smaller tensor lies in the larger."""
        slices = [slice(None)] * len(self.labels)
        for place, start, step, count in self.cuts:
            slices[place] = slice(start, start + (count - 1) * step + 1, step)
        return tuple(slices)

    def _larger(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The larger tensor's shape from a local smaller one's."""
        cut = {place for place, *_ in self.cuts}
        return tuple(self.shape[place] if place in cut else size for place, size in enumerate(shape))


class Slice(_Cutting):
    """The elements ``start, start + step, ...`` along the dims that are cut."""

    kind: ClassVar[str] = "slice"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """The smaller tensor."""
        counts = {place: count for place, _, _, count in self.cuts}
        shape = tuple(counts.get(place, size) for place, size in enumerate(inputs[0].shape))
        return (TensorType(shape, inputs[0].dtype),)

    def dims(self) -> Dims:
        """Linear."""
        return Dims((self.labels,), (self._part,), self._whole, linear=(frozenset({0}),))

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """Copies what is picked."""
        return (memory_bound(Kernel.COPY, outputs, outputs, accumulate=accumulate),)

    def adjoint(self) -> Operator:
        """Zeros around."""
        return Pad(self.labels, self.shape, self.cuts)

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
        return (TensorType(self._larger(inputs[0].shape), inputs[0].dtype),)

    def dims(self) -> Dims:
        """Linear if the margin is zero."""
        linear = () if self.value else (frozenset({0}),)
        return Dims((self._part,), (self.labels,), self._whole, linear=linear)

    def adjoint(self) -> Operator:
        """The part of the gradient that lies where x lay."""
        return Slice(self.labels, self.shape, self.cuts)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The larger array."""
        (x,) = inputs
        padded = np.full(self._larger(x.shape), self.value, dtype=x.dtype)
        padded[self._at()] = x
        return (padded,)
