"""The best plan for a model on a cluster, beginning with the first one that fits."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import Any

from simcluster.scenario import Scenario
from simcluster.search.planner import PlanSearch, SearchResult
from simcluster.search.space import PlanChoice, PlanSpace
from simcluster.tuning import FirstFit

OVER = ("mesh", "micro_batch=1,2,4", "chunks", "recompute")
"""What is chosen where nobody says it."""


def improve_fit(
    first: FirstFit, executor: Executor, watch: Callable[[int], None] | None = None
) -> SearchResult | None:
    """The search among all meshes and micro-batches, for the batch of the first plan that fits, or of the
    nearest to it; None if no plan was possible.
    """
    base = first.chosen or first.nearest
    if base is None:
        return None
    scenario = Scenario.of(base.data)
    space = PlanSpace.of(scenario, OVER)
    return PlanSearch(space, watch=watch).run(executor)


def plan_data(data: Mapping[str, Any], choice: PlanChoice) -> dict[str, Any]:
    """A scenario as plain data with another plan."""
    parallel = {key: value for key, value in data["parallel"].items() if key != "schedule"}
    parallel["mesh"] = dict(choice.mesh)
    if choice.num_stages > 1:
        chunks = {"chunks": choice.chunks} if choice.chunks > 1 else {}
        parallel["schedule"] = {"kind": choice.schedule, **chunks}
    if choice.size("tensor") == 1:
        parallel.pop("recipe", None)
    parallel["recompute"] = json.loads(choice.recompute) or {"layers": "none"}
    order = ("mesh", "recipe", "schedule", "optimizer_sharding", "recompute")
    return {
        **data,
        "training": {**data["training"], "micro_batch": choice.micro_batch},
        "parallel": {key: parallel[key] for key in order if key in parallel},
    }
