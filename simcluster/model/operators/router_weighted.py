"""An activation weighed in the same kernel: experts multiply by what their router gave a token.

Before the last projection rather than behind it: that is linear, so the result is the same, and of its output
nothing is kept (Megatron-Core's weighted SwiGLU).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from simcluster.deferred_dataclass import dataclass
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

    @property
    def names(self) -> tuple[str, ...]:
        """Also by its function: ``weighed_swiglu``."""
        return (f"weighed_{self.function.kind}", self.kind, self.family)

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

    @property
    def names(self) -> tuple[str, ...]:
        """Also by its function: ``weighed_swiglu_grad``."""
        return (f"weighed_{self.function.kind}_grad", self.kind, self.family)

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


@dataclass(frozen=True, slots=True)
class WeighedBias(PointwiseKernel):
    """``x + b w``: the bias of an expert behind its last projection, times what the router gave a token."""

    labels: Labels
    bias: Labels
    weights: Labels

    kind: ClassVar[str] = "weighed_bias"

    def dims(self) -> Dims:
        """Jointly linear in x and each factor."""
        linear = (frozenset({0, 1}), frozenset({0, 2}))
        return Dims((self.labels, self.bias, self.weights), (self.labels,), linear=linear)

    def input_gradients(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grad: Gradient
    ) -> tuple[Gradient | None, ...]:
        """The gradient passes to x; those of both factors read the other one again."""
        if not any(tape.needs_gradient(factor) for factor in inputs[1:]):
            return (grad, None, None)
        back = WeighedBiasGrad(self.labels, self.bias, self.weights)
        return (grad, *tape.emit("grad", back, [*inputs[1:], grad]))

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The sum."""
        x, bias, weights = inputs
        return (x + _spread(bias, self.bias, self.labels) * _spread(weights, self.weights, self.labels),)


@dataclass(frozen=True, slots=True)
class WeighedBiasGrad(PointwiseKernel):
    """Gradients of a weighed bias and of the weights, from these and dy."""

    labels: Labels
    bias: Labels
    weights: Labels

    kind: ClassVar[str] = "weighed_bias_grad"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Like both factors."""
        return tuple(inputs[:2])

    def dims(self) -> Dims:
        """Linear in dy, and jointly in both factors; the gradients sum over the dims that they lack."""
        factors = (self.bias, self.weights)
        return Dims((*factors, self.labels), factors, linear=(frozenset({0, 1}), frozenset({2})))

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The sums of dy times the other factor."""
        bias, weights, dy = inputs
        products = (
            dy * _spread(weights, self.weights, self.labels),
            dy * _spread(bias, self.bias, self.labels),
        )
        kept = (self.bias, self.weights)
        return tuple(
            np.asarray(product.sum(axis=tuple(i for i, name in enumerate(self.labels) if name not in names)))
            for product, names in zip(products, kept, strict=True)
        )
