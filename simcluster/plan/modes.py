"""Makes a plan by the scenario's mode: from strategies, written or searched, or from a
hand-written program.
"""

from __future__ import annotations

from simcluster.cluster import Cluster
from simcluster.collectives import AUTOMATIC, Selection
from simcluster.model import Model
from simcluster.plan import manual
from simcluster.plan.data import InputPipeline
from simcluster.plan.plan import Plan
from simcluster.plan.planner import StrategyPlanner
from simcluster.plan.search_report import SearchReport
from simcluster.plan.sharded_model import ShardedModels
from simcluster.plan.spec import FrameworkSpec, ParallelSpec, Task


def make_plan(
    model: Model,
    task: Task,
    parallel: ParallelSpec,
    framework: FrameworkSpec,
    cluster: Cluster,
    algorithms: Selection = AUTOMATIC,
    inputs: InputPipeline | None = None,
    searched: SearchReport | None = None,
    known: ShardedModels | None = None,
) -> Plan:
    """The plan of a model on a cluster; PlanError, with every reason that can be given, if it
    is impossible.

    ``searched`` is what a search found for a plan that differs in recomputation and offload only; without it,
    mode auto searches. ``known`` keeps the sharded model for such plans, which may differ in optimizer
    sharding, too: {} for the first of them.
    """
    given = (model, task, parallel, framework, cluster, algorithms, inputs)
    if parallel.mode == "auto":
        from simcluster.plan.auto_planner import AutoPlanner

        return AutoPlanner(*given, searched).plan(known)
    if parallel.mode == "manual":
        return manual.ManualPlanner(*given).plan()
    return StrategyPlanner(*given).plan(known)
