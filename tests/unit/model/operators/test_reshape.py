"""Reshapes of any shapes: names, the splits that survive, and those that cannot."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.layout import Strategy
from simcluster.model import Region
from simcluster.model.graph.operator import UNIT
from simcluster.model.operators.reshape import Reshape
from tests.contracts.operator_mesh import SMALL

FACTORS = st.lists(st.sampled_from([1, 2, 2, 3, 4]), min_size=1, max_size=5)


def grouped(draw, factors):
    """Neighbouring factors merged at random: a shape of as many elements."""
    shape = [factors[0]]
    for factor in factors[1:]:
        if draw(st.booleans()):
            shape[-1] *= factor
        else:
            shape.append(factor)
    return tuple(shape)


@st.composite
def pairs(draw):
    factors = draw(FACTORS)
    return grouped(draw, factors), grouped(draw, factors)


@given(pairs())
@settings(max_examples=40)
def test_every_split_that_is_allowed_gives_the_parts_of_the_whole(pair):
    shape, result = pair
    labels = tuple(f"dim{place}" for place in range(len(shape)))
    operator = Reshape.of(labels, shape, result)
    x = np.arange(math.prod(shape), dtype=np.float64).reshape(shape)
    (whole,) = operator.evaluate((x,), Region({}))
    assert np.array_equal(whole, x.reshape(result))
    shared = frozenset(operator.labels) & frozenset(operator.result)
    dims = operator.dims()
    assert set(dims.splittable) == {name for name in shared if name != UNIT}
    for ranks in SMALL:
        for strategy in ranks.legal(operator, dims.splittable, (x,), shared):
            assert not ranks.differences(operator, strategy, (x,), (whole,), resized=shared)


@given(pairs())
def test_its_gradient_is_the_way_back(pair):
    shape, result = pair
    labels = tuple(f"dim{place}" for place in range(len(shape)))
    operator = Reshape.of(labels, shape, result)
    back = Reshape(operator.result, operator.result_shape, operator.labels, operator.shape)
    x = np.arange(math.prod(shape), dtype=np.float64).reshape(shape)
    (there,) = operator.evaluate((x,), Region({}))
    assert np.array_equal(back.evaluate((there,), Region({}))[0], x)
    assert back.dims().splittable == tuple(
        name for name in back.dims().names if name in operator.dims().splittable
    )


@pytest.mark.parametrize(
    ("labels", "shape", "result", "names"),
    [
        (("batch", "seq", "hidden"), (2, 4, 32), (2, 4, 4, 8), ("batch", "seq", "hidden", "dim3")),
        (("batch", "heads", "head_dim"), (2, 4, 8), (2, 32), ("batch", "heads")),
        (("batch", "seq", "hidden"), (2, 4, 8), (8, 8), ("batch", "hidden")),
        (("batch", "dim1"), (2, 12), (2, 3, 4), ("batch", "dim1", "dim2")),
        (("dim1", "batch"), (12, 2), (3, 4, 2), ("dim1", "dim1_1", "batch")),
        (("batch", "hidden"), (2, 8), (2, 1, 8), ("batch", UNIT, "hidden")),
    ],
)
def test_the_outermost_dim_of_a_run_keeps_its_name(labels, shape, result, names):
    assert Reshape.of(labels, shape, result).result == names


def test_inner_factors_say_why_they_stay_whole():
    operator = Reshape.of(("batch", "heads", "head_dim"), (2, 4, 8), (2, 32))
    reason = "only the outermost factor of dims that are merged or divided can be split"
    assert operator.dims().unsplittable == (("head_dim", reason),)


def test_a_smaller_batch_keeps_its_shape_besides():
    """The samples of some ranks only: the oracle of unequal shares evaluates a part of the whole."""
    operator = Reshape.of(("batch", "seq", "hidden"), (8, 4, 6), (32, 6))
    x = np.arange(6 * 4 * 6.0).reshape(6, 4, 6)
    assert np.array_equal(operator.evaluate((x,), Region({}))[0], x.reshape(24, 6))


@pytest.mark.parametrize(
    ("shape", "result"), [((2, 3), (5,)), ((4,), (2, 3)), ((2, 2), (2, 2, 2)), ((), (2,))]
)
def test_other_numbers_of_elements_are_refused(shape, result):
    labels = tuple(f"dim{place}" for place in range(len(shape)))
    with pytest.raises(ValueError, match="do not hold equally many elements"):
        Reshape.of(labels, shape, result)


def test_a_layout_of_the_whole_and_of_the_parts_agree():
    operator = Reshape.of(("batch", "heads", "head_dim"), (2, 4, 8), (2, 32))
    (layout,) = operator.dims().output_layouts(Strategy.of({"heads": ["tensor"]}))
    assert str(layout) == "(-, tensor)"
