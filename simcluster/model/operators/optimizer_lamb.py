"""LAMB (You et al., arXiv 1904.00962, algorithm 2): Adam whose step has the length of the weights it changes.

The step's direction is scaled by the norm of the whole parameter over its own norm, so an update looks at a
whole parameter at once. Where its elements are split over ranks, it is rewritten as three primitives: the
direction, the two sums of squares (partial sums, which the planner reduces), and the step. A parameter or a
direction that is all zero is stepped by the learning rate alone. The ratio is not bounded: the paper's phi is
the identity.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Dims
from simcluster.model.graph import Array, Decomposition, MemoryPass, Region, TensorType
from simcluster.model.operators.clip import SumOfSquares
from simcluster.model.operators.optimizer import AdamUpdate, OptimizerOperator
from simcluster.work import DType, Kernel, Work

_ELEMENTS = ("elements",)


@dataclass(frozen=True, slots=True)
class Lamb(AdamUpdate):
    """``w - lr |w| / |u| u`` with ``u`` Adam's change plus the decay; the decay is part of the direction."""

    kind: ClassVar[str] = "lamb"
    least_decay: ClassVar[float] = 0.01
    """Where a gradient is all rounding errors (the bias of keys has none), its update would have the length
    of the weights and their direction; with a decay the weights themselves outweigh them."""

    def dims(self) -> Dims:
        """Every element depends on the norm over all of them."""
        free = AdamUpdate.dims(self)
        whole = (("elements", "LAMB takes norms over the whole parameter"),)
        return Dims(free.inputs, free.outputs, unsplittable=whole)

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """The kernels of its primitives: the norms must be known before anything is stepped."""
        return self._primitives.work(inputs)

    def step(self, weights: Array, grad: Array, states: tuple[Array, ...], step: int) -> tuple[Array, ...]:
        """The whole algorithm on a whole parameter."""
        change, first, second = self.change(grad, states, step)
        direction = change + self.weight_decay * weights
        lengths = np.sqrt((weights * weights).sum()), np.sqrt((direction * direction).sum())
        return (weights - self.learning_rate * _ratio(*lengths) * direction, first, second)

    def decompose(self, split: frozenset[str]) -> Decomposition | None:
        """Direction, squares and step."""
        return self._primitives if split == {"elements"} else None

    @property
    def _primitives(self) -> Decomposition:
        direction = LambDirection(self.weight_decay, self.beta1, self.beta2, self.eps)
        made = ("out0",) if self.cast is None else ("out0", "out3")
        squares = ("weights.square", "direction.square")
        return Decomposition(
            (
                ("direction", direction, ("in0", "in1", "in2", "in3"), ("direction", "out1", "out2")),
                ("squares", SumOfSquares(2), ("in0", "direction"), squares),
                ("step", LambStep(self.learning_rate, self.cast), ("in0", "direction", *squares), made),
            )
        )


def _ratio(weights: Array, direction: Array) -> Array:
    """The trust ratio of two norms; 1 if either is zero."""
    usable = (weights > 0) & (direction > 0)
    return np.where(usable, weights / np.where(usable, direction, 1), 1)


@dataclass(frozen=True, slots=True)
class LambDirection(OptimizerOperator):
    """Inputs weights, gradient and the two moments; outputs the direction and the new moments.

    The direction takes the gradient's place and has its type.
    """

    weight_decay: float
    beta1: float
    beta2: float
    eps: float

    kind: ClassVar[str] = "lamb_direction"
    gradient_input: ClassVar[int | None] = 1

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Like the gradient and the moments."""
        return tuple(inputs[1:])

    def dims(self) -> Dims:
        """Every element for itself."""
        return Dims((_ELEMENTS,) * 4, (_ELEMENTS,) * 3)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """Adam's change with the decay added."""
        weights, grad, *moments = inputs
        adam = Lamb(beta1=self.beta1, beta2=self.beta2, eps=self.eps)
        change, first, second = adam.change(grad, tuple(moments), region.step)
        return (change + self.weight_decay * weights, first, second)


@dataclass(frozen=True, slots=True)
class LambStep(OptimizerOperator):
    """The new weights, and their cast in mixed precision, from weights, direction and the two squares."""

    learning_rate: float
    cast: DType | None = None

    kind: ClassVar[str] = "lamb_step"
    weights_output: ClassVar[int | None] = 0
    launch: ClassVar[MemoryPass] = MemoryPass(Kernel.OPTIMIZER, flops_per_element=2, accumulates=False)

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Like the weights; the cast in its own format."""
        weights = inputs[0]
        return (weights,) if self.cast is None else (weights, TensorType(weights.shape, self.cast))

    def dims(self) -> Dims:
        """Every element for itself, with the two scalars."""
        return Dims((_ELEMENTS, _ELEMENTS, (), ()), (_ELEMENTS,) * (1 + (self.cast is not None)))

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The step in the direction, as long as the weights."""
        weights, direction, *squares = inputs
        ratio = _ratio(*map(np.sqrt, squares)).astype(weights.dtype)
        made = np.asarray(weights - self.learning_rate * ratio * direction)
        return (made,) if self.cast is None else (made, made.copy())
