"""Clocks under power limits: the closed form, and what is known of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.cluster import DeviceSpec, device_names
from simcluster.cluster.device import PowerModel


def test_the_clock_is_the_cube_root_of_the_power_beyond_idle():
    power = PowerModel(idle=100, limit=500, demand=900)
    assert power.clock(900) == power.clock(2000) == 1
    assert power.clock(200) == pytest.approx(0.5)
    assert power.speed(200) == pytest.approx(0.5 / 0.5 ** (1 / 3))
    assert power.speed(500) == 1


@given(st.floats(1, 2))
def test_the_limit_holds_matmuls_to_what_they_sustain(burst):
    power = PowerModel.of(70, 700, burst)
    assert power.clock(power.limit) == pytest.approx(1 / burst)


@given(st.floats(80, 700), st.floats(80, 700))
def test_less_power_is_never_faster(one, other):
    power = PowerModel.of(70, 700, 1.07)
    low, high = sorted((one, other))
    assert 0 < power.speed(low) <= power.speed(high) <= 1


@pytest.mark.parametrize("name", device_names())
def test_devices_of_the_catalog_idle_below_their_limit(name):
    model = DeviceSpec.load(name).power_model
    if model is not None:
        assert 0 < model.idle < model.limit <= model.demand


def test_an_h100_at_500_of_700_watts_keeps_most_of_its_clock():
    model = DeviceSpec.load("h100-sxm").power_model
    assert (
        model.speed(500) == pytest.approx((430 / 630) ** (1 / 3), rel=1e-9) == pytest.approx(0.88, abs=0.005)
    )
