"""Sums and means over any dims, and the spreading that undoes them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Dims
from simcluster.model.graph import (
    UNIT,
    Array,
    Labels,
    MemoryBound,
    MemoryPass,
    Operator,
    Region,
    TensorType,
    memory_bound,
    unit_dims,
)
from simcluster.work import Kernel, Work


@dataclass(frozen=True, slots=True)
class Reduction(Operator):
    """What reductions share: the dims of x that ``kept`` names stay, ``UNIT`` stands for one that goes."""

    labels: Labels
    kept: Labels

    family: ClassVar[str] = "reduction"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """The kept dims."""
        extent = {**dict(zip(self.labels, inputs[0].shape, strict=True)), UNIT: 1}
        return (TensorType(tuple(extent[name] for name in self.kept), inputs[0].dtype),)

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """One reduction kernel."""
        return (memory_bound(Kernel.REDUCTION, inputs[:1], outputs, accumulate=accumulate),)

    def over(self) -> tuple[int, ...]:
        """The places of the dims that go."""
        return tuple(place for place, name in enumerate(self.labels) if name not in self.kept or name == UNIT)

    def kept_shape(self, x: Array) -> list[int]:
        """The shape of the local result."""
        extent = {**dict(zip(self.labels, x.shape, strict=True)), UNIT: 1}
        return [extent[name] for name in self.kept]


@dataclass(frozen=True, slots=True)
class SumTo(Reduction):
    """``scale`` times the sum of x over every dim that ``kept`` lacks; kept dims stand in x's order.

    A mean has the *whole* count in its scale, so that ranks add up. ``shape`` is the whole shape of x, which
    a gradient needs.
    """

    scale: float = 1.0
    shape: tuple[int, ...] = ()

    kind: ClassVar[str] = "sum_to"

    @classmethod
    def of(cls, labels: Labels, kept: Labels, shape: Sequence[int], *, mean: bool = False) -> SumTo:
        """The sum or mean over a tensor of this whole shape."""
        count = math.prod(size for name, size in zip(labels, shape, strict=True) if name not in kept)
        return cls(labels, kept, 1 / count if mean else 1.0, tuple(shape))

    def dims(self) -> Dims:
        """Linear."""
        whole = unit_dims(self.labels, self.kept)
        return Dims((self.labels,), (self.kept,), whole, linear=(frozenset({0}),))

    def adjoint(self) -> Operator:
        """The same for every element that was added."""
        if len(self.shape) < len(self.labels):
            raise NotImplementedError(f"{self.kind} has no gradient without the shape of what it sums")
        return Spread(self.kept, self.labels, self.shape, self.scale)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The sum over the other dims."""
        (x,) = inputs
        total = x.sum(axis=self.over()).reshape(self.kept_shape(x))
        return (np.asarray(total * x.dtype.type(self.scale) if self.scale != 1.0 else total),)


@dataclass(frozen=True, slots=True)
class Spread(MemoryBound):
    """``scale`` times x, broadcast along the dims of ``result`` that it lacks to the global ``shape``."""

    labels: Labels
    result: Labels
    shape: tuple[int, ...]
    scale: float = 1.0

    kind: ClassVar[str] = "spread"
    family: ClassVar[str] = "pointwise"
    launch: ClassVar[MemoryPass] = MemoryPass(Kernel.ELEMENTWISE)

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """The result's shape, local in the dims that x has."""
        extent = dict(zip(self.labels, inputs[0].shape, strict=True))
        sizes = zip(self.result, self.shape, strict=True)
        return (TensorType(tuple(extent.get(name, size) for name, size in sizes), inputs[0].dtype),)

    def dims(self) -> Dims:
        """Linear."""
        whole = unit_dims(self.labels, self.result)
        return Dims((self.labels,), (self.result,), whole, linear=(frozenset({0}),))

    def adjoint(self) -> Operator:
        """The sum over what was repeated."""
        return SumTo(self.result, self.labels, self.scale, self.shape)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The larger tensor."""
        (x,) = inputs
        extent = {**dict(zip(self.labels, x.shape, strict=True)), UNIT: 1}
        sizes = zip(self.result, self.shape, strict=True)
        shape = [extent[name] if name in extent else region.size(name, size) for name, size in sizes]
        aligned = x.reshape([extent[name] if name in self.labels else 1 for name in self.result])
        return (np.array(np.broadcast_to(aligned * x.dtype.type(self.scale), shape)),)
