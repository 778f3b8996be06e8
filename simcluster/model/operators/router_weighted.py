"""An activation weighed in the same kernel: experts multiply by what their router gave a token.

Before the last projection rather than behind it: that is linear, so the result is the same, and of its output
nothing is kept (Megatron-Core's weighted SwiGLU).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from simcluster.layout import Dims
from simcluster.model.graph import Array, Gradient, Labels, Region, Tape, TensorType
from simcluster.model.operators.activation import Activation, Gate
from simcluster.model.operators.pointwise import PointwiseKernel


def _spread(weights: Array, labels: Labels, over: Labels) -> Array:
    """Weights with dims ``labels``, to be multiplied with an array of the dims ``over``."""
    sizes = dict(zip(labels, weights.shape, strict=True))
    return weights.reshape([sizes.get(name, 1) for name in over])


@dataclass(frozen=True, slots=True)
class RouterWeighted(PointwiseKernel):
    """``f(x) * w``: the operands of an activation or gate, then weights that have some of its dims."""

    function: Activation | Gate
    weights: Labels

    kind: ClassVar[str] = "weighed"

    def dims(self) -> Dims:
        """Linear as the function is, and in the weights."""
        inner = self.function.dims()
        linear = (*inner.linear, frozenset({len(inner.inputs)}))
        return Dims((*inner.inputs, self.weights), inner.outputs, linear=linear)

    def input_gradients(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grad: Gradient
    ) -> tuple[Gradient | None, ...]:
        """Reads all inputs again."""
        return tape.emit("grad", RouterWeightedGrad(self.function, self.weights), [*inputs, grad])

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The weighed activation."""
        *operands, weights = inputs
        (y,) = self.function.evaluate(operands, region)
        return (y * _spread(weights, self.weights, self.function.labels),)


@dataclass(frozen=True, slots=True)
class RouterWeightedGrad(PointwiseKernel):
    """Gradients of the operands and of the weights, from these and dy."""

    function: Activation | Gate
    weights: Labels

    kind: ClassVar[str] = "weighed_grad"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Like operands and weights."""
        return tuple(inputs[:-1])

    def dims(self) -> Dims:
        """Linear in dy; a weight's gradient sums over the dims it lacks."""
        inner = self.function.dims()
        operands = (*inner.inputs, self.weights)
        linear = (frozenset({len(operands)}),)
        return Dims((*operands, *inner.outputs), operands, linear=linear)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The function's gradient of w dy; and the sum of f(x) dy."""
        *operands, weights, dy = inputs
        function, labels = self.function, self.function.labels
        (y,) = function.evaluate(operands, region)
        kept = [y] if isinstance(function, Activation) and function.keeps_output else operands
        back = function.backward(labels)
        made = back.evaluate([*kept, dy * _spread(weights, self.weights, labels)], region)
        gone = tuple(index for index, name in enumerate(labels) if name not in self.weights)
        return (*made, np.asarray((y * dy).sum(axis=gone)))
