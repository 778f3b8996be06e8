"""Comparisons from Python: ``simcluster.compare``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from simcluster.comparison.compared_runs import ComparedRun, side_by_side
from simcluster.deferred_dataclass import dataclass
from simcluster.engine import Progress
from simcluster.errors import ScenarioError
from simcluster.report import (
    Comparison,
    comparison_html,
    comparison_page,
    comparison_text,
    progress_display,
)
from simcluster.simulation import GivenScenario, scenario_of
from simcluster.trace import Run


@runtime_checkable
class HasRun(Protocol):
    """A result of ``simcluster.simulate``."""

    @property
    def run(self) -> Run:
        """Everything recorded."""


@dataclass(frozen=True)
class ComparedPlans:
    """Plans side by side; ``print`` shows them, a notebook draws them."""

    comparison: Comparison

    @property
    def document(self) -> dict[str, Any]:
        """All that ``simcluster compare --json`` prints, SI units."""
        return self.comparison.document()

    def to_html(self, path: str | Path) -> None:
        """Writes the page that ``simcluster compare --html`` does."""
        Path(path).write_text(comparison_page(self.comparison), encoding="utf-8")

    def __repr__(self) -> str:
        return f"ComparedPlans: {', '.join(side.name for side in self.comparison.sides)}"

    def __str__(self) -> str:
        return comparison_text(self.comparison)

    def _repr_html_(self) -> str:
        return comparison_html(self.comparison)


def compare(
    *plans: GivenScenario | HasRun, vary: Mapping[str, Iterable[object]] | None = None
) -> ComparedPlans:
    """Plans side by side, each compared with the first: which figures differ, and why.

    Each is a scenario as ``simulate`` takes it, a result, or the file of a saved run. ``vary`` compares one
    scenario with itself changed: ``compare("plan.yaml", vary={"training.micro_batch": [2, 4]})``. Raises
    ScenarioError for wrong files, and fewer than two plans; PlanError for impossible ones.
    """
    compared = [_compared(plan) for plan in plans]
    if vary:
        compared += _varied(compared, vary)
    if len(compared) < 2:
        raise ScenarioError("one plan alone has nothing to be compared with: give two or more, or vary")
    return ComparedPlans(side_by_side(compared, _shown))


@contextmanager
def _shown(name: str) -> Iterator[Progress]:
    """How far a simulation is, in notebooks."""
    progress = Progress()
    with progress_display(name, progress):
        yield progress


def _compared(plan: GivenScenario | HasRun) -> ComparedRun:
    if isinstance(plan, (str, Path)):
        return ComparedRun.of_file(str(plan))
    if isinstance(plan, HasRun):
        return ComparedRun("", plan.run)
    return ComparedRun("", scenario=scenario_of(plan))


def _varied(compared: list[ComparedRun], vary: Mapping[str, Iterable[object]]) -> list[ComparedRun]:
    scenario = compared[0].scenario if len(compared) == 1 else None
    if scenario is None:
        raise ScenarioError("vary compares one scenario with itself changed: give one, and no saved run")
    varied = []
    for key, values in vary.items():
        for value in values:
            text = value if isinstance(value, str) else json.dumps(value)
            changed = scenario.changed([(key, text)], "vary")
            varied.append(ComparedRun(f"  ({key}={text})", scenario=changed))
    return varied
