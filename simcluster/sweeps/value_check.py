"""Values that no scenario can have are errors before anything runs."""

from __future__ import annotations

from itertools import islice

from simcluster.errors import Problem, ScenarioError
from simcluster.scenario import Scenario
from simcluster.sweeps.variation import SweepSpace

_MOST_TRIED = 200
"""Points that are looked at for one value, which together with others may be right."""


def check_values(scenario: Scenario, space: SweepSpace) -> None:
    """Raises ScenarioError, with all of them, for keys that do not exist and values that are always wrong.

    A value is always wrong if the document is refused, at this value, in every point that has it. A point
    that is refused for other reasons, or that cannot be planned, becomes a row of the sweep.
    """
    refusals: dict[int, tuple[Problem, ...]] = {}

    def refusal(point: int) -> tuple[Problem, ...]:
        if point not in refusals:
            try:
                scenario.changed(space.changes(point), "--vary")
                refusals[point] = ()
            except ScenarioError as error:
                refusals[point] = error.problems
        return refusals[point]

    problems: dict[tuple[str, str], Problem] = {}
    for number, variation in enumerate(space.variations):
        for place, text in enumerate(variation.texts):
            where = f"--vary {variation.key}={text}"
            points = islice(space.points_with(number, place), _MOST_TRIED)
            refused = [[problem for problem in refusal(point) if _is_at(problem, where)] for point in points]
            if all(refused):
                for problem in refused[0]:  # an unknown key is the same problem with each of its values
                    problems.setdefault((variation.key, problem.message), problem)
    if problems:
        raise ScenarioError(*problems.values())


def _is_at(problem: Problem, where: str) -> bool:
    """Whether a problem is that of a value, or of something inside it."""
    return problem.where == where or problem.where.startswith(f"{where}: ")
