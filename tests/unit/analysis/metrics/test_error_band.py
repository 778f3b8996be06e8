"""Error bands: conformal sizes, the nearest kind, and what results say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.analysis.metrics.error_band import (
    LEAST_RUNS,
    ErrorBand,
    RunKind,
    bands_of,
    error_band_document,
    nearest_band,
    shipped_bands,
)

KIND = RunKind("h100", "fsdp", "data")


@given(st.lists(st.floats(-0.5, 2.0), min_size=LEAST_RUNS, max_size=60))
def test_nine_of_ten_further_runs_lie_inside(errors):
    """Of n + 1 runs in any order, at least nine of ten are no farther off than the others' band."""
    inside = sum(
        abs(left) <= ErrorBand.of(errors[:place] + errors[place + 1 :]).nine_of_ten
        for place, left in enumerate(errors)
        if len(errors) > LEAST_RUNS
    )
    assert len(errors) == LEAST_RUNS or inside >= 0.9 * len(errors)
    band = ErrorBand.of(errors)
    assert band.median <= band.nine_of_ten


def test_the_nearest_kind_with_runs_enough_is_told():
    other = RunKind("h100", "fsdp", "data + tensor")
    bands = bands_of([(KIND, 0.1)] * LEAST_RUNS + [(other, -0.2)])
    assert nearest_band(KIND, bands) == (KIND, ErrorBand(LEAST_RUNS, 0.1, 0.1))
    near, band = nearest_band(other, bands)
    assert str(near) == "h100, fsdp"
    assert band.runs == LEAST_RUNS + 1
    assert nearest_band(RunKind("x", "y", "z"), {}) is None


@pytest.mark.parametrize(
    ("device", "mixture", "said"),
    [
        ("a100-sxm-80", False, "a100, fsdp, data"),
        ("ascend-910b-313t", True, "ascend-910b, fsdp, mixture, data"),
        ("h100-sxm, changed", False, "h100, fsdp, data"),
    ],
)
def test_devices_of_a_family_are_one_kind(device, mixture, said):
    assert str(RunKind.of(device, "fsdp", ["data"], mixture=mixture)) == said


def test_a_bound_has_no_band_and_other_results_name_theirs():
    assert error_band_document(RunKind("h100", "ideal", "data"))["comparable_runs"] == 0
    for kind, band in shipped_bands().items():
        found = error_band_document(kind)
        assert found["nine_of_ten_within"] == band.nine_of_ten
        assert found["comparable_runs"] == band.runs
        assert f"{band.runs} comparable measured runs" in found["words"]
