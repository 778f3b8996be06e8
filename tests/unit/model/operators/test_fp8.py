"""Rounding to fp8 against the numbers that the formats have (arXiv 2209.05433)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.model import Region, TensorType
from simcluster.model.operators.fp8 import E4M3, E5M2, Fp8Cast, round_significand
from simcluster.work import DType

FORMATS = {"E4M3": (E4M3, 3, -6, 8), "E5M2": (E5M2, 2, -14, 15)}
"""Significant bits, stored mantissa bits, smallest and largest exponent of normal numbers."""


def numbers(mantissa, low, high):
    """Every positive normal number of a format."""
    return np.array(
        [(1 + part / 2**mantissa) * 2.0**e for e in range(low, high + 1) for part in range(2**mantissa)]
    )


@pytest.mark.parametrize("name", FORMATS)
def test_a_number_of_the_format_stays(name):
    significant, *grid = FORMATS[name]
    every = numbers(*grid)
    assert np.array_equal(round_significand(every, significant), every)
    assert np.array_equal(round_significand(-every, significant), -every)


@pytest.mark.parametrize("name", FORMATS)
def test_any_other_goes_to_its_nearest_neighbour(name):
    significant, *grid = FORMATS[name]
    every = numbers(*grid)
    rng = np.random.default_rng(0)
    x = np.exp(rng.uniform(np.log(every[0]), np.log(every[-1]), 5000))
    nearest = every[np.abs(x[:, None] - every[None, :]).argmin(axis=1)]
    assert np.array_equal(round_significand(x, significant), nearest)


@pytest.mark.parametrize("name", FORMATS)
def test_ties_go_to_the_even_neighbour(name):
    significant, *grid = FORMATS[name]
    every = numbers(*grid)
    found = round_significand((every[:-1] + every[1:]) / 2, significant)
    steps = np.arange(len(every) - 1)
    assert np.array_equal(found, every[steps + steps % 2])


@given(x=st.floats(-1e6, 1e6), power=st.integers(-100, 100), significant=st.sampled_from([E4M3, E5M2]))
def test_a_scale_that_is_a_power_of_two_changes_nothing(x, power, significant):
    """So the scale of a tensor, whatever it is, need not be known."""
    value = np.array([x])
    assert np.array_equal(
        round_significand(value * 2.0**power, significant), round_significand(value, significant) * 2.0**power
    )
    assert np.abs(round_significand(value, significant) - value) <= np.abs(value) * 2.0**-significant


def test_zero_stays_zero():
    assert round_significand(np.zeros(3), E4M3).tolist() == [0, 0, 0]


def test_single_precision_is_copied():
    x = np.array([1.03, -2.7], dtype=np.float32)
    (made,) = Fp8Cast(("x",)).evaluate([x], Region({}))
    assert made.dtype == np.float32
    assert np.array_equal(made, x)


@pytest.mark.parametrize("copies", [1, 2])
def test_a_cast_reads_two_bytes_and_writes_one_per_copy(copies):
    kind = TensorType((8, 16), DType.BF16)
    cast = Fp8Cast(("a", "b"), copies=copies)
    outputs = cast.infer([kind])
    assert outputs == (TensorType((8, 16), DType.FP8),) * copies
    (work,) = cast.work([kind], outputs)
    assert (work.bytes_read, work.bytes_written) == (2 * 128, copies * 128)
