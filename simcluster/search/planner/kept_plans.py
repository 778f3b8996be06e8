"""Plans that a search has simulated, kept in a file."""

from __future__ import annotations

from pathlib import Path

from simcluster.search.planner.plan_search import PlanSearch
from simcluster.workers import Journal


def search_journal(search: PlanSearch, path: Path, *, restart: bool = False) -> Journal:
    """The journal of a search: of the scenario and all that decides which plan has which number.

    Raises ScenarioError for a file of another search, unless ``restart`` throws away what it holds.
    """
    work = {
        "scenario": search.space.scenario.spec.model_dump(mode="json", exclude_unset=True),
        "--over": {name: list(values) for name, values in search.space.keys.items()},
        "--objective": str(search.objective),
        "--limit-memory": search.limit,
    }
    return Journal(path, work, restart=restart)
