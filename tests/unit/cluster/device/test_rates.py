from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.cluster.device.rates import EfficiencyCurve


def test_it_is_linear_in_the_logarithm_between_points_and_flat_outside():
    curve = EfficiencyCurve(((1e6, 0.2), (1e8, 0.8)))
    assert curve.at(1) == 0.2
    assert curve.at(1e6) == 0.2
    assert curve.at(1e7) == pytest.approx(0.5)
    assert curve.at(1e8) == curve.at(1e12) == 0.8


def test_one_point_is_a_constant():
    assert EfficiencyCurve(((5.0, 0.6),)).at(0.1) == EfficiencyCurve(((5.0, 0.6),)).at(1e9) == 0.6


@pytest.mark.parametrize("points", [(), ((0.0, 1.0),), ((2.0, 1.0), (2.0, 1.0)), ((2.0, 1.0), (1.0, 1.0))])
def test_sizes_must_be_positive_and_rise(points):
    with pytest.raises(ValueError, match="rising"):
        EfficiencyCurve(points)


@given(
    st.lists(
        st.tuples(st.floats(1e-3, 1e12), st.floats(0.01, 1)), min_size=1, max_size=6, unique_by=lambda p: p[0]
    ),
    st.floats(1e-6, 1e15),
)
def test_it_stays_within_its_points(points, size):
    value = EfficiencyCurve(tuple(sorted(points))).at(size)
    low, high = min(v for _, v in points), max(v for _, v in points)
    assert low * (1 - 1e-12) <= value <= high * (1 + 1e-12)
