"""A search from Python: ``simcluster.find_plan``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

from simcluster.errors import ScenarioError, nearest
from simcluster.report import counted_display
from simcluster.search.found_plan import FoundPlan
from simcluster.search.planner import Objective, PlanSearch, search_journal
from simcluster.search.space import PlanSpace
from simcluster.simulation import GivenScenario, scenario_of
from simcluster.workers import borrowed_executor


def find_plan(
    scenario: GivenScenario,
    over: Sequence[str] | str = (),
    *,
    objective: Literal["step_time", "cost", "memory"] = "step_time",
    limit_memory: float | None = None,
    budget_s: float | None = None,
    keep: str | Path | None = None,
    restart: bool = False,
    executor: Executor | None = None,
    jobs: int | None = None,
    dask: str | None = None,
    watch: Callable[[int], None] | None = None,
) -> FoundPlan:
    """The best plan for a scenario's model and cluster, with the proof, and the table of the next best.

    ``over`` are keys of ``simcluster search --over``, such as ``["mesh", "micro_batch=1,2,4"]`` or
    ``"mesh,micro_batch=1,2,4"``; by default those of the command. ``limit_memory`` is the share of a device's
    memory that a plan may need,
    ``budget_s`` the seconds after which no further plan is begun. ``print`` shows the table; ``best`` is None
    where no plan fits, ``scenario`` the scenario with the best plan. ``keep`` is a file of simulated plans,
    so that the same call goes on after an interruption; ``restart`` throws them away. Plans are simulated as
    ``simcluster.sweep`` does its points; ``watch`` is called with how many have been.

    Raises ScenarioError for a wrong file, an empty space, or the cost of a cluster without a price.
    """
    if objective not in list(Objective):
        raise ScenarioError(f"there is no objective '{objective}'", hint=nearest(objective, list(Objective)))
    which = scenario_of(scenario)
    space = PlanSpace.of(which, over)
    with ExitStack() as stack:
        plans = f"at most {len(space.plans):,} plans simulated"
        count = stack.enter_context(counted_display(which.name, plans, watch))
        search = PlanSearch(space, Objective(objective), limit_memory, budget_s, count)
        search.check()
        journal = None
        if keep is not None:
            journal = stack.enter_context(search_journal(search, Path(keep), restart=restart))
        workers = stack.enter_context(borrowed_executor(executor, jobs, dask, len(search.space.plans)))
        return FoundPlan(search.run(workers, journal))
