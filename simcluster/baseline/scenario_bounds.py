"""A scenario's own bounds on its figures: its ``expect:`` section, compared with a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from simcluster.analysis import ATTENTION_METRICS, INFERENCE_METRICS, METRICS, SHARED_METRICS, MemoryVerdict
from simcluster.baseline.figure import figure_list_text, figure_named, figure_text, figure_texts, short_name
from simcluster.deferred_dataclass import dataclass
from simcluster.document import Refused
from simcluster.errors import Problem, ScenarioError
from simcluster.job import JOB_METRICS
from simcluster.scenario import BoundSpec, Scenario
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
        value, *shown = figure_texts(self.figure, self.value, *given.values())
        listed = " and ".join(f"{words} {text}" for words, text in zip(given, shown, strict=True))
        return f"{short_name(self.figure)} is {value}, expected {listed}"


MEMORY = "memory"
"""The key of ``expect`` whose bound is a verdict, not a number."""


@dataclass(frozen=True, slots=True)
class ExpectedVerdict:
    """The verdict on a run's memory, and the one that its scenario expects."""

    value: MemoryVerdict
    expected: MemoryVerdict

    @property
    def holds(self) -> bool:
        """Whether memory is what it was expected to be."""
        return self.value is self.expected

    def __str__(self) -> str:
        return f"its memory: {self.value}, expected: {self.expected}"


@dataclass(frozen=True, slots=True)
class Limits:
    """What a figure may be, in SI units; None: no limit on that side."""

    least: float | None
    most: float | None


_VERDICT_HINT = "write for example memory: {verdict: does not fit}"


def bounds_of(scenario: Scenario) -> dict[str, Limits]:
    """The bounds a scenario sets itself, by full figure name.

    Raises ScenarioError, pointing into the file, for names that are no figures, for figures bounded twice and
    for limits with the unit of something else.
    """
    bounds: dict[str, Limits] = {}
    names: dict[str, str] = {}
    problems: list[Problem] = []
    unknown = False
    for name, bound in scenario.spec.expect.items():
        path = f"expect.{name}"
        if name == MEMORY:
            if bound.verdict is None or bound.min is not None or bound.max is not None:
                problems.append(
                    Problem("memory has a verdict alone; peak_memory has min and max", path, _VERDICT_HINT)
                )
            continue
        if bound.verdict is not None:
            problems.append(Problem("only memory has a verdict", f"{path}.verdict", _VERDICT_HINT))
            continue
        try:
            figure = figure_named(name)
        except ValueError as error:
            problems.append(
                Problem(str(error), path, "" if unknown else figure_list_text(_figures(scenario)))
            )
            unknown = True
            continue
        if figure in SHARED_METRICS and not scenario.spec.tenants:
            problems.append(Problem(f"only a scenario with tenants has a {name}", path))
        if figure in JOB_METRICS and scenario.spec.job is None:
            problems.append(Problem(f"only a scenario with a job has a {name}", path))
        if figure in INFERENCE_METRICS and scenario.spec.inference is None:
            problems.append(Problem(f"only an inference has a {name}", path))
        if figure in bounds:
            problems.append(Problem(f"'{names[figure]}' and '{name}' are one figure", path))
        try:
            bounds[figure], names[figure] = _limits(figure, name, bound), name
        except Refused as error:
            problems += error.problems
    if problems:
        raise scenario.located(ScenarioError(*problems))
    return bounds


def _limits(figure: str, name: str, bound: BoundSpec) -> Limits:
    """The limits of a figure in SI units; Refused, with the key, if they cannot be read or exclude all."""
    read: dict[str, float | None] = {"min": None, "max": None}
    problems = []
    for key, written in (("min", bound.min), ("max", bound.max)):
        try:
            read[key] = None if written is None else figure_text(figure, written)
        except ValueError as error:
            problems.append(Problem(str(error), f"expect.{name}.{key}"))
    least, most = read["min"], read["max"]
    if least is not None and most is not None and least > most:
        problems.append(Problem(f"min {bound.min} is above max {bound.max}", f"expect.{name}"))
    if problems:
        raise Refused(*problems)
    return Limits(least, most)


def _figures(scenario: Scenario) -> Iterator[str]:
    """The figures that a result of this scenario has."""
    yield from METRICS
    if scenario.spec.tenants:
        yield from SHARED_METRICS
    if scenario.spec.job is not None:
        yield from JOB_METRICS
    if scenario.spec.inference is not None:
        yield from INFERENCE_METRICS


def expected_verdict(scenario: Scenario) -> MemoryVerdict | None:
    """The verdict on memory that a scenario expects: ``expect: {memory: {verdict: does not fit}}``."""
    bound = scenario.spec.expect.get(MEMORY)
    return None if bound is None or bound.verdict is None else MemoryVerdict(bound.verdict)


def check_bounds(scenario: Scenario, run: Run) -> tuple[Bound | ExpectedVerdict, ...]:
    """Every bounded figure of a run of this scenario, in the order of the file, and the verdict on memory.

    Raises ScenarioError for a figure that only models with attention have.
    """
    summary: Mapping[str, float] = run.documents["summary"]
    if lacking := [
        name for name in ATTENTION_METRICS if name in scenario.spec.expect and name not in summary
    ]:
        problems = (
            Problem(f"only a model with attention has a {name}", f"expect.{name}") for name in lacking
        )
        raise scenario.located(ScenarioError(*problems))
    verdict = expected_verdict(scenario)
    return (
        *(
            Bound(figure, float(summary[figure]), limits.least, limits.most)
            for figure, limits in bounds_of(scenario).items()
        ),
        *(
            ()
            if verdict is None
            else (ExpectedVerdict(MemoryVerdict(run.documents["summary"]["verdict"]), verdict),)
        ),
    )
