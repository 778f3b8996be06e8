"""Results that are to be compared: scenarios that are simulated now, and runs that were saved."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from simcluster.cli.output.progress import progress_line
from simcluster.errors import PlanError, Problem, ScenarioError
from simcluster.report import Comparison
from simcluster.scenario import Scenario
from simcluster.simulation import build_scenario, simulate
from simcluster.trace import Run

SAVED = ".simrun"


def side_by_side(paths: Sequence[str], settings: Sequence[tuple[str, str]]) -> Comparison:
    """The comparison of scenarios and saved runs, by their files; ``settings`` change all scenarios.

    Raises one ScenarioError with the problems of all of them before any is simulated; TraceError for a file
    that holds no run.
    """
    if len(paths) < 2:
        raise ScenarioError("one plan alone has nothing to be compared with: name two files or more")
    scenarios: dict[int, Scenario] = {}
    problems: list[Problem] = []
    for index, path in enumerate(paths):
        if Path(path).suffix == SAVED:
            continue
        try:
            scenarios[index] = Scenario.load(path, settings)
            build_scenario(scenarios[index], search=False)
        except (ScenarioError, PlanError) as error:
            problems += error.problems
    if not scenarios and settings:
        problems.append(Problem("saved runs cannot be changed", where=f"--set {settings[0][0]}"))
    if problems:
        raise ScenarioError(*dict.fromkeys(problems))
    runs = []
    for index, path in enumerate(paths):
        if index not in scenarios:
            run = Run.load(path)
        else:
            with progress_line(scenarios[index].name) as progress:
                run = simulate(scenarios[index], progress=progress)
        runs.append((f"{run.documents['plan']['name']}  ({path})", run))
    return Comparison.of(runs)
