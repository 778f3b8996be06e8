"""Activation functions of one tensor, and gates: a function of one tensor times another."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from simcluster.layout import Dims
from simcluster.model.graph import Array, Gradient, Region, Tape, TensorType
from simcluster.model.operators.pointwise import Pointwise

_SQRT_2_OVER_PI = 0.7978845608028654
_GELU_CUBIC = 0.044715
_QUICK = 1.702
"""With it ``x sigmoid(1.702 x)`` is near GELU (arXiv 1606.08415)."""
_CAP = 30.0
"""Gemma 2's ``final_logit_softcapping``, the same in all its sizes."""
_CLAMP = 7.0
"""The limit of gpt-oss (``swiglu_limit`` of its config.json)."""


def gelu(x: Array) -> tuple[Array, Array]:
    """GELU (tanh form) and its derivative."""
    inner = _SQRT_2_OVER_PI * (x + _GELU_CUBIC * x**3)
    tanh = np.tanh(inner)
    slope = 0.5 * (1 + tanh) + 0.5 * x * (1 - tanh**2) * _SQRT_2_OVER_PI * (1 + 3 * _GELU_CUBIC * x**2)
    return 0.5 * x * (1 + tanh), slope


def sigmoid(x: Array) -> Array:
    """``1 / (1 + exp(-x))``, of numbers of either sign without overflow."""
    return np.asarray(np.exp(-np.logaddexp(x.dtype.type(0), -x)))


def silu(x: Array) -> tuple[Array, Array]:
    """``x s`` with s the sigmoid of x, and its derivative ``s (1 + x (1 - s))``."""
    share = sigmoid(x)
    value = x * share
    return value, share + value * (1 - share)


def clamped_silu(x: Array) -> tuple[Array, Array]:
    """``x s`` with x at most 7 and s the sigmoid of 1.702 x, and its derivative; 0 where x was cut off."""
    cut = np.minimum(x, _CLAMP)
    share = sigmoid(_QUICK * cut)
    value = cut * share
    return value, (share + _QUICK * value * (1 - share)) * (cut == x)


class ActivationGrad(Pointwise):
    """``dx`` from what the forward kept, x or y, and dy."""

    def dims(self) -> Dims:
        """Linear in dy."""
        return Dims((self.labels,) * 2, (self.labels,), linear=(frozenset({1}),))

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """Slope times dy."""
        kept, dy = inputs
        return (self.slope(kept) * dy,)

    @staticmethod
    @abstractmethod
    def slope(kept: Array) -> Array:
        """The derivative, from what was kept."""


class Activation(Pointwise):
    """A function of one tensor; its gradient reads the output if ``keeps_output``, else the input."""

    backward: ClassVar[type[ActivationGrad]]
    keeps_output: ClassVar[bool] = False

    def dims(self) -> Dims:
        """Nothing partial passes; all of them are zero at zero."""
        return Dims((self.labels,), (self.labels,), zero_preserving=((0, frozenset({0})),))

    def input_gradients(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grad: Gradient
    ) -> tuple[Gradient | None, ...]:
        """Reads what is kept again."""
        kept = outputs[0] if self.keeps_output else inputs[0]
        return tape.emit("grad", self.backward(self.labels), [kept, grad])

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The activation."""
        return (self.function(inputs[0]),)

    @staticmethod
    @abstractmethod
    def function(x: Array) -> Array:
        """The function."""


class GeluGrad(ActivationGrad):
    """``dx`` of GELU from x and dy."""

    kind: ClassVar[str] = "gelu_grad"

    @staticmethod
    def slope(kept: Array) -> Array:
        """The derivative of GELU."""
        return gelu(kept)[1]


class Gelu(Activation):
    """GELU in its tanh form."""

    kind: ClassVar[str] = "gelu"
    backward = GeluGrad

    @staticmethod
    def function(x: Array) -> Array:
        """GELU of x."""
        return gelu(x)[0]


class ReluGrad(ActivationGrad):
    """``dx`` of ReLU from y and dy."""

    kind: ClassVar[str] = "relu_grad"

    @staticmethod
    def slope(kept: Array) -> Array:
        """One where y is positive."""
        return (kept > 0).astype(kept.dtype)


class Relu(Activation):
    """``max(x, 0)``; its output, which the next projection keeps anyway, is enough for the gradient."""

    kind: ClassVar[str] = "relu"
    backward = ReluGrad
    keeps_output = True

    @staticmethod
    def function(x: Array) -> Array:
        """The positive part."""
        return np.maximum(x, 0)


class SoftCapGrad(ActivationGrad):
    """``dx`` of a soft cap from y and dy."""

    kind: ClassVar[str] = "soft_cap_grad"

    @staticmethod
    def slope(kept: Array) -> Array:
        """``1 - (y / 30)^2``."""
        return np.asarray(1 - (kept / _CAP) ** 2)


class SoftCap(Activation):
    """``30 tanh(x / 30)``: logits that cannot grow beyond 30 (Gemma 2)."""

    kind: ClassVar[str] = "soft_cap"
    backward = SoftCapGrad
    keeps_output = True

    @staticmethod
    def function(x: Array) -> Array:
        """The capped value."""
        return np.asarray(_CAP * np.tanh(x / _CAP))


class SquaredReluGrad(ActivationGrad):
    """``dx`` of squared ReLU from x and dy."""

    kind: ClassVar[str] = "squared_relu_grad"

    @staticmethod
    def slope(kept: Array) -> Array:
        """``2 max(x, 0)``."""
        return 2 * np.maximum(kept, 0)


class SquaredRelu(Activation):
    """``max(x, 0)^2`` (arXiv 2109.08668)."""

    kind: ClassVar[str] = "squared_relu"
    backward = SquaredReluGrad

    @staticmethod
    def function(x: Array) -> Array:
        """The positive part squared."""
        return np.maximum(x, 0) ** 2


class TanhGrad(ActivationGrad):
    """``dx`` of y = tanh(x) from y and dy."""

    kind: ClassVar[str] = "tanh_grad"

    @staticmethod
    def slope(kept: Array) -> Array:
        """``1 - y^2``."""
        return 1 - kept * kept


class Tanh(Activation):
    """``tanh(x)``: the activation of BERT's pooler."""

    kind: ClassVar[str] = "tanh"
    backward = TanhGrad
    keeps_output = True

    @staticmethod
    def function(x: Array) -> Array:
        """The hyperbolic tangent."""
        return np.tanh(x)


class GateGrad(Pointwise):
    """Gradients of gate and up from gate, up and dy."""

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Two outputs like the gate."""
        return (inputs[0], inputs[0])

    def dims(self) -> Dims:
        """Linear in dy."""
        return Dims((self.labels,) * 3, (self.labels,) * 2, linear=(frozenset({2}),))

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """By the product rule."""
        gate, up, dy = inputs
        value, slope = self.function(gate)
        return (dy * up * slope, dy * value)

    @staticmethod
    @abstractmethod
    def function(x: Array) -> tuple[Array, Array]:
        """The gate's function and its derivative."""


class Gate(Pointwise):
    """``f(gate) * up``."""

    backward: ClassVar[type[GateGrad]]

    def dims(self) -> Dims:
        """Linear in up."""
        return Dims((self.labels,) * 2, (self.labels,), linear=(frozenset({1}),))

    def input_gradients(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grad: Gradient
    ) -> tuple[Gradient | None, ...]:
        """Reads both inputs again."""
        return tape.emit("grad", self.backward(self.labels), [*inputs, grad])

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The gated activation."""
        gate, up = inputs
        return (self.function(gate)[0] * up,)

    @staticmethod
    @abstractmethod
    def function(x: Array) -> tuple[Array, Array]:
        """The gate's function and its derivative."""


class SwigluGrad(GateGrad):
    """Gradients of the SiLU gate."""

    kind: ClassVar[str] = "swiglu_grad"
    function = staticmethod(silu)


class Swiglu(Gate):
    """``silu(gate) * up`` (arXiv 2002.05202)."""

    kind: ClassVar[str] = "swiglu"
    backward = SwigluGrad
    function = staticmethod(silu)


class GegluGrad(GateGrad):
    """Gradients of the GELU gate."""

    kind: ClassVar[str] = "geglu_grad"
    function = staticmethod(gelu)


class Geglu(Gate):
    """``gelu(gate) * up`` (arXiv 2002.05202), GELU in its tanh form."""

    kind: ClassVar[str] = "geglu"
    backward = GegluGrad
    function = staticmethod(gelu)


class ClampedSwigluGrad(GateGrad):
    """Gradients of the clamped gate; none beyond its limits."""

    kind: ClassVar[str] = "clamped_swiglu_grad"
    function = staticmethod(clamped_silu)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """By the product rule, where nothing is cut off."""
        gate, up, dy = inputs
        value, slope = self.function(gate)
        kept_up = np.clip(up, -_CLAMP, _CLAMP)
        return (dy * (kept_up + 1) * slope, dy * value * (kept_up == up))


class ClampedSwiglu(Gate):
    """``g sigmoid(1.702 g) (u + 1)``: g the gate, at most 7, and u the other half, within 7 of zero (gpt-oss,
    its reference code's ``swiglu``, from memory).
    """

    kind: ClassVar[str] = "clamped_swiglu"
    backward = ClampedSwigluGrad
    function = staticmethod(clamped_silu)

    def dims(self) -> Dims:
        """Linear in neither half; zero where the gate is."""
        return Dims((self.labels,) * 2, (self.labels,), zero_preserving=((0, frozenset({0})),))

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The gated activation."""
        gate, up = inputs
        return (self.function(gate)[0] * (np.clip(up, -_CLAMP, _CLAMP) + 1),)
