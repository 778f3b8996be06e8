"""Error bands made from runs: conformal sizes, and the nearest kind."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from simcluster.accuracy.runs.error_band_coverage import LEAST_RUNS, band_of, bands_of
from simcluster.analysis import ErrorBand, RunKind, nearest_band

KIND = RunKind("h100", "fsdp", "data")


@given(st.lists(st.floats(-0.5, 2.0), min_size=LEAST_RUNS, max_size=60))
def test_nine_of_ten_further_runs_lie_inside(errors):
    """Of n + 1 runs in any order, at least nine of ten are no farther off than the others' band."""
    inside = sum(
        abs(left) <= band_of(errors[:place] + errors[place + 1 :]).nine_of_ten
        for place, left in enumerate(errors)
        if len(errors) > LEAST_RUNS
    )
    assert len(errors) == LEAST_RUNS or inside >= 0.9 * len(errors)
    band = band_of(errors)
    assert band.median <= band.nine_of_ten


def test_the_nearest_kind_with_runs_enough_is_told():
    other = RunKind("h100", "fsdp", "data + tensor")
    bands = bands_of([(KIND, 0.1)] * LEAST_RUNS + [(other, -0.2)])
    assert nearest_band(KIND, bands) == (KIND, ErrorBand(LEAST_RUNS, 0.1, 0.1))
    near, band = nearest_band(other, bands)
    assert str(near) == "h100, fsdp"
    assert band.runs == LEAST_RUNS + 1
    assert nearest_band(RunKind("x", "y", "z"), {}) is None
