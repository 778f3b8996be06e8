"""Activation functions and gates."""

from __future__ import annotations

from simcluster.model.operators.activation import (
    ClampedSwiglu,
    ClampedSwigluGrad,
    Geglu,
    GegluGrad,
    Gelu,
    GeluGrad,
    Relu,
    ReluGrad,
    SoftCap,
    SoftCapGrad,
    SquaredRelu,
    SquaredReluGrad,
    Swiglu,
    SwigluGrad,
    Tanh,
    TanhGrad,
)
from tests.contracts.operator_case import Case, normal

_HIDDEN = ("batch", "seq", "hidden")


CASES = (
    Case("soft_cap", SoftCap(_HIDDEN), normal((4, 8, 4)), (0,)),
    Case("soft_cap_grad", SoftCapGrad(_HIDDEN), normal((4, 8, 4), (4, 8, 4))),
    Case("gelu", Gelu(_HIDDEN), normal((4, 8, 4)), (0,)),
    Case("gelu_grad", GeluGrad(_HIDDEN), normal((4, 8, 4), (4, 8, 4))),
    Case("swiglu", Swiglu(_HIDDEN), normal((4, 8, 4), (4, 8, 4)), (0,)),
    Case("swiglu_grad", SwigluGrad(_HIDDEN), normal((4, 8, 4), (4, 8, 4), (4, 8, 4))),
    Case("geglu", Geglu(_HIDDEN), normal((4, 8, 4), (4, 8, 4)), (0,)),
    Case("geglu_grad", GegluGrad(_HIDDEN), normal((4, 8, 4), (4, 8, 4), (4, 8, 4))),
    Case("clamped_swiglu", ClampedSwiglu(_HIDDEN), normal((4, 8, 4), (4, 8, 4)), (0,)),
    Case("clamped_swiglu_grad", ClampedSwigluGrad(_HIDDEN), normal((4, 8, 4), (4, 8, 4), (4, 8, 4))),
    Case("relu", Relu(_HIDDEN), normal((4, 8, 4)), (0,)),
    Case("relu_grad", ReluGrad(_HIDDEN), normal((4, 8, 4), (4, 8, 4))),
    Case("squared_relu", SquaredRelu(_HIDDEN), normal((4, 8, 4)), (0,)),
    Case("squared_relu_grad", SquaredReluGrad(_HIDDEN), normal((4, 8, 4), (4, 8, 4))),
    Case("tanh", Tanh(_HIDDEN), normal((4, 8, 4)), (0,)),
    Case("tanh_grad", TanhGrad(_HIDDEN), normal((4, 8, 4), (4, 8, 4))),
)
