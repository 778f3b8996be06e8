"""Values that no scenario can have are errors before anything runs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from simcluster.errors import Problem, ScenarioError, nearest
from simcluster.plan import roles_of
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

    problems = {(problem.where, problem.message): problem for problem in _misspelt_axes(scenario, space)}
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


def _misspelt_axes(scenario: Scenario, space: SweepSpace) -> Iterator[Problem]:
    """Problems of sizes of mesh axes that nobody has, but another name that is nearly the same.

    Axes may be called anything, and one of a single rank splits nothing: it would do nothing unseen.
    """
    parallel = scenario.spec.parallel
    known = {
        *parallel.sizes,
        "data",
        "tensor",
        *(axis for axes in roles_of(parallel).values() for axis in axes),
    }
    for variation in space.variations:
        before, _, axis = variation.key.rpartition(".")
        if before == "parallel.mesh" and axis not in known and (near := nearest(axis, known)).endswith("?"):
            yield Problem(f"the mesh has no axis '{axis}'", where=f"--vary {variation.key}", hint=near)


def _is_at(problem: Problem, where: str) -> bool:
    """Whether a problem is that of a value, or of something inside it."""
    return problem.where == where or problem.where.startswith(f"{where}: ")
