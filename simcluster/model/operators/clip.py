"""Norms of gradients and weights, and scaling gradients so that their global norm stays below a limit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Dims
from simcluster.model.graph import Array, MemoryPass, Region, TensorType
from simcluster.model.operators.optimizer import OptimizerOperator
from simcluster.work import DType, Kernel

_ELEMENTS = ("elements",)
_GUARD = 1e-6
"""Added to the norm before dividing by it, as PyTorch and Megatron do."""


def clip_factor(squares: Array, limit: float) -> Array:
    """What gradients whose squares sum up to ``squares`` are multiplied with: at most 1."""
    return np.asarray(np.minimum(1, limit / (np.sqrt(squares) + _GUARD)), dtype=squares.dtype)


@dataclass(frozen=True, slots=True)
class SumOfSquares(OptimizerOperator):
    """The sum of squares of each of ``count`` tensors, as fp32 scalars."""

    count: int = 1

    kind: ClassVar[str] = "sum_of_squares"
    launch: ClassVar[MemoryPass] = MemoryPass(Kernel.OPTIMIZER, flops_per_element=2)

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """One scalar per tensor."""
        return (TensorType((), DType.FP32),) * self.count

    def dims(self) -> Dims:
        """Each sum is over its own input."""
        terms = tuple((frozenset({index}),) for index in range(self.count))
        neutral = tuple((index, 0.0) for index in range(self.count))
        return Dims((_ELEMENTS,) * self.count, ((),) * self.count, terms=terms, neutral=neutral)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The sums."""
        return tuple(np.asarray((x * x).sum()) for x in inputs)


@dataclass(frozen=True, slots=True)
class ClipFactor(OptimizerOperator):
    """``min(1, limit / norm)`` from the square of the norm."""

    limit: float

    kind: ClassVar[str] = "clip_factor"
    launch: ClassVar[MemoryPass] = MemoryPass(Kernel.ELEMENTWISE, flops_per_element=4, accumulates=False)

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """A scalar."""
        return (inputs[0],)

    def dims(self) -> Dims:
        """Scalars have no dims."""
        return Dims(((),), ((),))

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The factor."""
        return (clip_factor(inputs[0], self.limit),)


@dataclass(frozen=True, slots=True)
class ScaleGradient(OptimizerOperator):
    """A gradient times a scalar, in its own place."""

    kind: ClassVar[str] = "scale_gradient"
    launch: ClassVar[MemoryPass] = MemoryPass(Kernel.OPTIMIZER, accumulates=False)

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Like the gradient."""
        return (inputs[0],)

    def dims(self) -> Dims:
        """Linear in each factor."""
        return Dims((_ELEMENTS, ()), (_ELEMENTS,), linear=(frozenset({0}), frozenset({1})))

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The product."""
        return (np.asarray(inputs[0] * inputs[1]),)
