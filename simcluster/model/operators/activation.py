"""Activation functions besides GELU and SwiGLU: ReLU, squared ReLU, and the GELU gate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from simcluster.layout import Dims
from simcluster.model.operator import Array, Region, Tape, TensorType
from simcluster.model.operators.pointwise import Labels, Pointwise, gelu_slope


class _Plain(Pointwise):
    """An activation of one tensor."""

    labels: Labels

    def dims(self) -> Dims:
        """Nothing partial passes."""
        return Dims((self.labels,), (self.labels,))


class _PlainGrad(Pointwise):
    """``dx`` from what the forward kept and dy."""

    labels: Labels

    def dims(self) -> Dims:
        """Linear in dy."""
        return Dims((self.labels,) * 2, (self.labels,), linear=(frozenset({1}),))


@dataclass(frozen=True, slots=True)
class Relu(_Plain):
    """``max(x, 0)``."""

    labels: Labels

    kind: ClassVar[str] = "relu"

    def gradient(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grads: Sequence[str | None]
    ) -> tuple[str | None, ...]:
        """Reads the output, which the next projection keeps anyway: x need not live."""
        if grads[0] is None:
            return (None,)
        return tape.emit("grad", ReluGrad(self.labels), [outputs[0], grads[0]])

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The activation."""
        return (np.maximum(inputs[0], 0),)


@dataclass(frozen=True, slots=True)
class ReluGrad(_PlainGrad):
    """``dx`` of ReLU from y and dy."""

    labels: Labels

    kind: ClassVar[str] = "relu_grad"

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """Dy where y is positive."""
        y, dy = inputs
        return (dy * (y > 0),)


@dataclass(frozen=True, slots=True)
class SquaredRelu(_Plain):
    """``max(x, 0)^2`` (arXiv 2109.08668)."""

    labels: Labels

    kind: ClassVar[str] = "squared_relu"

    def gradient(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grads: Sequence[str | None]
    ) -> tuple[str | None, ...]:
        """Reads the input again."""
        if grads[0] is None:
            return (None,)
        return tape.emit("grad", SquaredReluGrad(self.labels), [inputs[0], grads[0]])

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The activation."""
        return (np.maximum(inputs[0], 0) ** 2,)


@dataclass(frozen=True, slots=True)
class SquaredReluGrad(_PlainGrad):
    """``dx`` of squared ReLU from x and dy."""

    labels: Labels

    kind: ClassVar[str] = "squared_relu_grad"

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """``2 max(x, 0) dy``."""
        x, dy = inputs
        return (2 * np.maximum(x, 0) * dy,)


@dataclass(frozen=True, slots=True)
class Geglu(Pointwise):
    """``gelu(gate) * up`` (arXiv 2002.05202), GELU in its tanh form."""

    labels: Labels

    kind: ClassVar[str] = "geglu"

    def dims(self) -> Dims:
        """Linear in up."""
        return Dims((self.labels,) * 2, (self.labels,), linear=(frozenset({1}),))

    def gradient(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grads: Sequence[str | None]
    ) -> tuple[str | None, ...]:
        """Reads both inputs again."""
        if grads[0] is None:
            return (None, None)
        return tape.emit("grad", GegluGrad(self.labels), [*inputs, grads[0]])

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The gated activation."""
        gate, up = inputs
        return (gelu_slope(gate)[0] * up,)


@dataclass(frozen=True, slots=True)
class GegluGrad(Pointwise):
    """Gradients of gate and up from gate, up and dy."""

    labels: Labels

    kind: ClassVar[str] = "geglu_grad"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Two outputs like the gate."""
        return (inputs[0], inputs[0])

    def dims(self) -> Dims:
        """Linear in dy."""
        return Dims((self.labels,) * 3, (self.labels,) * 2, linear=(frozenset({2}),))

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """By the product rule."""
        gate, up, dy = inputs
        value, slope = gelu_slope(gate)
        return (dy * up * slope, dy * value)
