"""Results that are to be compared: scenarios that are simulated now, and runs that were saved."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from simcluster.deferred_dataclass import dataclass
from simcluster.engine import Progress
from simcluster.errors import PlanError, Problem, ScenarioError
from simcluster.report import Comparison
from simcluster.scenario import Scenario
from simcluster.simulation import build_scenario, simulate
from simcluster.trace import Run
from simcluster.tuning import Changes

SAVED = ".simrun"

Watch = Callable[[str], AbstractContextManager[Progress | None]]
"""Given the name of a scenario, what is entered while it is simulated."""


@dataclass(frozen=True)
class ComparedRun:
    """A result to be compared: what it is called, and its run or the scenario that is to be simulated."""

    name: str
    run: Run | None = None
    scenario: Scenario | None = None

    @classmethod
    def of_file(cls, path: str, settings: Changes = ()) -> ComparedRun:
        """A scenario file with some settings, or a saved run.

        Raises ScenarioError for a wrong file, TraceError for one that holds no run.
        """
        if Path(path).suffix == SAVED:
            return cls(f"  ({path})", Run.load(path))
        return cls(f"  ({path})", scenario=Scenario.load(path, settings))

    def finished(self, watch: Watch) -> tuple[str, Run]:
        """Its whole name and its run, simulated if it is not yet."""
        run = self.run
        if run is None:
            assert self.scenario is not None
            with watch(self.scenario.name) as progress:
                run = simulate(self.scenario, progress=progress)
        return f"{run.documents['plan']['name']}{self.name}", run


def side_by_side(runs: Iterable[ComparedRun], watch: Watch = lambda name: nullcontext()) -> Comparison:
    """The comparison of some results, the first of which the others are measured by.

    Raises one ScenarioError with the problems of all scenarios before any is simulated, and TraceError where
    there are too many.
    """
    compared = list(runs)
    problems: list[Problem] = []
    for own in compared:
        if own.scenario is not None:
            try:
                build_scenario(own.scenario, search=False)
            except (ScenarioError, PlanError) as error:
                problems += error.problems
    if problems:
        raise ScenarioError(*dict.fromkeys(problems))
    return Comparison.of([own.finished(watch) for own in compared])


def compared_files(
    paths: Sequence[str], settings: Changes, vary: Sequence[tuple[str, str]]
) -> list[ComparedRun]:
    """The results of some files; ``settings`` change all scenarios.

    Of one scenario with ``vary``, (key path, YAML text) pairs: the scenario as it is, then with each of them.
    Raises one ScenarioError with the problems of all files; TraceError for a file that holds no run.
    """
    if vary:
        return list(_varied(paths, settings, vary))
    if len(paths) < 2:
        raise ScenarioError(
            "one plan alone has nothing to be compared with: name two files or more, or --vary KEY=VALUE"
        )
    compared, problems = [], list[Problem]()
    for path in paths:
        try:
            compared.append(ComparedRun.of_file(path, settings))
        except ScenarioError as error:
            problems += error.problems
    if settings and all(own.run is not None for own in compared) and not problems:
        problems.append(Problem("saved runs cannot be changed", where=f"--set {settings[0][0]}"))
    if problems:
        raise ScenarioError(*dict.fromkeys(problems))
    return compared


def _varied(
    paths: Sequence[str], settings: Changes, vary: Sequence[tuple[str, str]]
) -> Iterator[ComparedRun]:
    if len(paths) != 1 or Path(paths[0]).suffix == SAVED:
        what = f"--vary {vary[0][0]}={vary[0][1]}"
        raise ScenarioError(
            Problem("this compares one scenario with itself changed: name one file", where=what)
        )
    (path,) = paths
    yield ComparedRun.of_file(path, settings)
    for key, text in vary:
        scenario = Scenario.load(path, settings).changed([(key, text)], "--vary")
        yield ComparedRun(f"  ({key}={text})", scenario=scenario)
