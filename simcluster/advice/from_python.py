"""Advice from Python: ``simcluster.advise``."""

from __future__ import annotations

from concurrent.futures import Executor

from simcluster.advice.advice import ROUNDS, advise_scenario
from simcluster.advice.given_advice import GivenAdvice
from simcluster.report import message_display
from simcluster.simulation import GivenScenario, scenario_of
from simcluster.workers import borrowed_executor


def advise(
    scenario: GivenScenario,
    *,
    rounds: int = ROUNDS,
    executor: Executor | None = None,
    jobs: int | None = None,
    dask: str | None = None,
) -> GivenAdvice:
    """What to change in a plan: tips with reasons, each simulated, and the combination of those that help.

    ``print`` shows it; ``changes`` are what to set, as key paths and YAML texts, ``final`` the figures with
    all of them, ``rounds`` the tips that were tried. What is slowest then is looked for again, so many
    ``rounds`` in all. Changes are simulated by ``jobs`` processes (one for each processor), on the workers of
    a Dask scheduler (``dask``: its address, or ``local``), or on any executor, which is not shut down.

    Raises ScenarioError for a wrong file and PlanError for an impossible plan.
    """
    which = scenario_of(scenario)
    with borrowed_executor(executor, jobs, dask) as workers, message_display(which.name) as tell:

        def watch(ended: int, total: int) -> None:
            tell(f"{ended} of {total} changes tried")

        return GivenAdvice(tuple(advise_scenario(which, workers, watch, rounds=rounds).rounds))
