"""A scenario's own bounds on its figures: its ``expect:`` section, read and held against a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from simcluster.baseline.figure import known, readings, short
from simcluster.errors import Problem, ScenarioError
from simcluster.scenario import BoundSpec, Scenario
from simcluster.simulation.answer import ANSWER_METRICS
from simcluster.simulation.summary import SHARED_METRICS
from simcluster.trace import Run


@dataclass(frozen=True, slots=True)
class Bound:
    """One bounded figure of a run: what it is and what it may be, in SI units."""

    figure: str
    value: float
    least: float | None
    most: float | None

    @property
    def holds(self) -> bool:
        """Whether the figure lies within its bounds, both included."""
        above = self.least is None or self.value >= self.least
        return above and (self.most is None or self.value <= self.most)

    def __str__(self) -> str:
        limits = {"at least": self.least, "at most": self.most}
        given = {words: limit for words, limit in limits.items() if limit is not None}
        value, *shown = readings(self.figure, self.value, *given.values())
        listed = " and ".join(f"{words} {text}" for words, text in zip(given, shown, strict=True))
        return f"{short(self.figure)} is {value}, expected {listed}"


def bounds(scenario: Scenario) -> dict[str, BoundSpec]:
    """The bounds a scenario sets itself, by full figure name.

    Raises ScenarioError, pointing into the file, for names that are no figures and for figures bounded twice.
    """
    found: dict[str, BoundSpec] = {}
    names: dict[str, str] = {}
    problems = []
    for name, bound in scenario.spec.expect.items():
        try:
            figure = known(name)
        except ValueError as error:
            problems.append(Problem(str(error), f"expect.{name}"))
            continue
        if figure in SHARED_METRICS and not scenario.spec.tenants:
            problems.append(Problem(f"only a scenario with tenants has a {name}", f"expect.{name}"))
        if figure in ANSWER_METRICS and scenario.spec.inference is None:
            problems.append(Problem(f"only an inference has a {name}", f"expect.{name}"))
        if figure in found:
            problems.append(Problem(f"'{names[figure]}' and '{name}' are one figure", f"expect.{name}"))
        found[figure], names[figure] = bound, name
    if problems:
        raise scenario.located(ScenarioError(*problems))
    return found


def judged(scenario: Scenario, run: Run) -> tuple[Bound, ...]:
    """Every bounded figure of a run of this scenario, in the order of the file."""
    summary: Mapping[str, float] = run.documents["summary"]
    return tuple(
        Bound(figure, float(summary[figure]), bound.min, bound.max)
        for figure, bound in bounds(scenario).items()
    )
