"""Error bands made from runs: conformal sizes, and the nearest kind."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.accuracy.runs.error_band_coverage import LEAST_RUNS, RunError, band_of, bands_of, coverage
from simcluster.simulation import BandTable, ErrorBand, RunKind

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
    table = bands_of([RunError("a", "m", KIND, 0.1)] * LEAST_RUNS + [RunError("a", "m", other, -0.2)])
    assert table.nearest(KIND) == (KIND, ErrorBand(LEAST_RUNS, 0.1, 0.1))
    near, band = table.nearest(other)
    assert str(near) == "h100, fsdp, dense"
    assert band.runs == LEAST_RUNS + 1
    assert BandTable({}).nearest(RunKind("x", "y", "z")) is None


def test_mixtures_are_compared_with_mixtures_before_dense_models():
    mixture, tensor = RunKind("h100", "fsdp", "mixture, expert"), RunKind("h100", "nemo", "mixture, tensor")
    runs = [RunError("a", "m", KIND, 0.1)] * LEAST_RUNS + [RunError("a", "m", mixture, 0.3)] * LEAST_RUNS
    assert str(bands_of(runs).nearest(tensor)[0]) == "h100, mixture"


def test_borrowed_bands_are_as_wide_as_unknown_publishers_need():
    kinds = [RunKind("h100", "fsdp", plan) for plan in ("data", "tensor")]
    runs = [RunError("a", "m", kinds[0], 0.1)] * 10 + [RunError("b", "m", kinds[1], 0.2)] * 10
    table = bands_of(runs)
    assert table.borrowed == 2.0
    assert table.nearest(kinds[1])[1].nine_of_ten == 0.2
    assert table.nearest(RunKind("h100", "nemo", "data"))[1].nine_of_ten == 0.1 * 2
    assert table.nearest(RunKind("h100", "nemo", "pipeline"))[1].nine_of_ten == 0.2 * 2
    assert coverage(runs)["tenth"] == (20, 20)


def test_a_publisher_of_many_runs_does_not_decide_how_wide_borrowed_bands_are():
    """Nine of ten runs are predicted well, but they are all of one publisher of three."""
    plans = {"a": ("data", 90, 0.1), "b": ("tensor", 10, 0.2), "c": ("pipeline", 10, 0.3)}
    runs = [
        RunError(publisher, "m", RunKind("h100", "fsdp", plan), error)
        for publisher, (plan, count, error) in plans.items()
        for _ in range(count)
    ]
    assert bands_of(runs).borrowed == pytest.approx(1.5)
