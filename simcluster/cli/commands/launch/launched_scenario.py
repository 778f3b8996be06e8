"""The scenario that is launched: its own way, or another that an option names."""

from __future__ import annotations

from collections.abc import Iterable

from simcluster.errors import Problem, ScenarioError
from simcluster.scenario import Scenario


def launched_scenario(path: str, changes: Iterable[tuple[str, str]], method: str | None) -> Scenario:
    """A scenario that says how it is launched; ``method`` takes the place of what it says.

    Keys of ``job.launch`` that ``changes`` give are kept, those of another method in the file are not.
    Raises ScenarioError if nothing says how.
    """
    settings = list(changes)
    before = [(key, text) for key, text in settings if not _is_of_launch(key)]
    scenario = Scenario.load(path, before if method else settings)
    job = scenario.spec.job
    if method is None:
        if job is None or job.launch is None:
            message = "the scenario does not say how it is launched"
            hint = "add --method msrun, or write job: {steps: 1000, launch: {method: msrun}}"
            raise scenario.located(ScenarioError(Problem(message, "job", hint)))
        return scenario
    if job is None:
        scenario = scenario.changed([("job", "{steps: 1}")], "--method")
    if job is None or job.launch is None or job.launch.method != method:
        scenario = scenario.changed([("job.launch", f"{{method: {method}}}")], "--method")
    return scenario.changed([pair for pair in settings if _is_of_launch(pair[0])])


def _is_of_launch(key: str) -> bool:
    return key.startswith("job.launch.")
