"""What only whole steps show, found again in runs whose steps are known in closed form."""

from __future__ import annotations

import math

import numpy as np
import pytest

from simcluster.accuracy import MeasuredRun
from simcluster.calibration import RunTimes, fit_times, run_fit_text, run_fit_yaml
from simcluster.errors import ScenarioError

CLOCK, HOST = ("gemm.sustained", "a100"), ("step_overhead", "megatron-core")


def run(number: int, clock: float, overhead: float, publisher: str, model: str) -> RunTimes:
    """A step of some seconds of matmuls, one of all else and half a one of overhead, times what is true."""
    matmuls = 1.0 + number % 5
    row = MeasuredRun(number, {"id": f"{publisher}-x-{number}", "model": model}, {}, 0.0, None)
    measured = matmuls / clock + 1.0 + 0.5 * overhead
    return RunTimes(row, measured, matmuls + 1.5, {CLOCK: matmuls, HOST: 0.5})


def runs(clock: float, overhead: float) -> list[RunTimes]:
    """Of three publishers with two models each."""
    return [run(n, clock, overhead, "abc"[n % 3], f"model-{n // 3 % 2}") for n in range(60)]


def test_figures_that_made_the_steps_are_found() -> None:
    fit = fit_times(runs(clock=0.95, overhead=1.5))
    found = {(move.parameter.key, move.owner): move.multiple for move in fit.moves}
    assert found[CLOCK] == pytest.approx(0.95, rel=0.02)
    assert found[HOST] == pytest.approx(1.5, rel=0.1)
    assert np.abs(fit.after).max() < 0.01 < np.abs(fit.before).min()


def test_runs_left_out_are_predicted_by_the_others() -> None:
    fit = fit_times(runs(clock=0.95, overhead=1.5))
    assert np.abs(fit.unseen_models).max() < 0.02
    assert np.abs(fit.unseen_sources).max() < 0.02


def test_what_a_single_publisher_asks_for_does_not_help_when_it_is_left_out() -> None:
    told = [*runs(1.0, 1.0), *(run(n, 0.8, 1.0, "odd", "own") for n in range(60, 90))]
    fit = fit_times(told)
    odd = np.array([one.row.group == "odd-x" for one in fit.runs])
    assert np.median(np.abs(fit.unseen_sources[odd])) > 0.1


def test_nothing_moves_where_nothing_is_wrong() -> None:
    fit = fit_times(runs(clock=1.0, overhead=1.0))
    assert not fit.moves
    assert "No figure changes" in run_fit_text(fit)


def test_tables_and_yaml_name_every_figure_that_moved() -> None:
    fit = fit_times(runs(clock=0.95, overhead=1.5))
    text = run_fit_text(fit)
    assert "publishers left out" in text and "gemm.sustained" in text and "a100" in text
    assert "figure: gemm.sustained" in run_fit_yaml(fit)


def test_the_same_runs_give_the_same_figures() -> None:
    one, other = (fit_times(runs(clock=0.93, overhead=1.4)) for _ in range(2))
    assert [move.multiple for move in one.moves] == [move.multiple for move in other.moves]
    assert math.isclose(float(one.after.sum()), float(other.after.sum()), rel_tol=0)


def test_few_runs_are_refused() -> None:
    with pytest.raises(ScenarioError, match="only 3 rows"):
        fit_times(runs(1.0, 1.0)[:3])
