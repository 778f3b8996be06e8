"""What ``simcluster calibrate fit`` shows and writes."""

from __future__ import annotations

from collections.abc import Sequence

from simcluster.accuracy import MeasuredKernel, MeasuredRun
from simcluster.calibration import (
    cross_validated,
    device_yaml,
    fit_device,
    fit_implementations,
    fit_runs,
    fit_text,
    implementation_yaml,
    passes_text,
    run_fit_text,
    run_fit_yaml,
    streamed_rows,
)
from simcluster.errors import Problem, ScenarioError, nearest


def fitted_device(rows: Sequence[MeasuredKernel], name: str, *, colour: bool) -> tuple[str, str]:
    """A device of the catalog, fitted: the tables, and its file."""
    fit = cross_validated(fit_device(rows, name))
    return fit_text(fit, colour=colour), device_yaml(fit)


def fitted_implementation(rows: Sequence[MeasuredKernel], name: str, *, colour: bool) -> tuple[str, str]:
    """An implementation of memory-bound operators: the table, and its file.

    Raises ScenarioError if no row is of it.
    """
    streamed = streamed_rows(rows)
    known = sorted({row.implementation for row in streamed})
    if name not in known:
        problem = Problem(
            f"no row is of implementation '{name}'", hint=nearest(name, known), where="--implementation"
        )
        raise ScenarioError(problem)
    fits = fit_implementations([row for row in streamed if row.implementation == name])
    return passes_text(fits, colour=colour), implementation_yaml(fits, name)


def fitted_runs(rows: Sequence[MeasuredRun], *, jobs: int, colour: bool) -> tuple[str, str]:
    """What only whole steps show, fitted to runs: the tables, and the figures as YAML."""
    fit = fit_runs(rows, jobs=jobs)
    return run_fit_text(fit, colour=colour), run_fit_yaml(fit)
