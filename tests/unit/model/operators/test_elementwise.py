"""The table of elementwise functions: closed under differentiation, and what broadcasting names."""

from __future__ import annotations

import math

import numpy as np
import pytest

from simcluster.model import Region
from simcluster.model.graph.operator import UNIT, TensorType
from simcluster.model.operators.elementwise import FUNCTIONS, THROUGH, Elementwise
from simcluster.work import DType

WHOLE = Region({})
X = np.linspace(-3, 3, 13)


def value(name, *arrays, constants=()):
    labels = (("x",),) * len(arrays)
    return Elementwise(name, labels, ("x",), constants).evaluate(arrays, WHOLE)[0]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_slope_is_a_call_of_an_entry(name):
    function = FUNCTIONS[name]
    assert len(function.slopes) == function.arity
    for slope in function.slopes:
        if slope in (None, THROUGH):
            continue
        called, arguments = slope
        assert FUNCTIONS[called].arity == len(arguments)
        assert "g" in arguments
        assert all(each in ("y", "g") or 0 <= each < function.arity for each in arguments)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sigmoid", lambda x: 1 / (1 + math.exp(-x))),
        ("softplus", lambda x: math.log1p(math.exp(x))),
        ("silu", lambda x: x / (1 + math.exp(-x))),
        ("erf", math.erf),
        ("gelu_erf", lambda x: x * 0.5 * math.erfc(-x / math.sqrt(2))),
    ],
)
def test_functions_of_one_number(name, expected):
    np.testing.assert_allclose(value(name, X), [expected(x) for x in X], rtol=1e-12)


def test_sigmoid_of_large_numbers_does_not_overflow():
    np.testing.assert_allclose(value("sigmoid", np.asarray([-800.0, 800.0])), [0.0, 1.0], atol=1e-300)


def test_numbers_stand_at_their_places():
    assert np.array_equal(value("sub", X, constants=((0, 2.0),)), 2 - X)
    assert np.array_equal(value("sub", X, constants=((1, 2.0),)), X - 2)
    assert np.array_equal(value("where", X > 0, X, constants=((2, -1.0),)), np.where(X > 0, X, -1))


def test_a_mask_is_a_byte_and_a_choice_has_the_type_of_what_is_chosen():
    kind = TensorType((4,), DType.BF16)
    labels = ("x",)
    (mask,) = Elementwise("less", (labels, labels), labels).infer((kind, kind))
    assert mask == TensorType((4,), DType.UINT8)
    assert Elementwise("where", (labels,) * 3, labels).infer((mask, kind, kind)) == (kind,)


def test_what_is_repeated_has_another_name():
    operator = Elementwise("mul", (("batch", "seq", UNIT), ("hidden",)), ("batch", "seq", "hidden"))
    column, row = TensorType((2, 3, 1), DType.FP32), TensorType((4,), DType.FP32)
    assert operator.infer((column, row)) == (TensorType((2, 3, 4), DType.FP32),)
    assert operator.dims().splittable == ("batch", "seq", "hidden")


def test_a_number_in_a_sum_lets_nothing_partial_pass():
    labels = ("x",)
    assert Elementwise("add", (labels,), labels, ((1, 1.0),)).dims().linear == ()
    assert Elementwise("mul", (labels,), labels, ((1, 3.0),)).dims().linear == (frozenset({0}),)
