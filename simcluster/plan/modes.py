"""Makes a plan by the scenario's mode: from strategies, written or searched, or from a
hand-written program.
"""

from __future__ import annotations

from collections.abc import Mapping

from simcluster.cluster import Cluster
from simcluster.collectives import AUTOMATIC, Selection
from simcluster.model import Model
from simcluster.plan import manual
from simcluster.plan.auto_planner import AutoPlanner
from simcluster.plan.data import InputPipeline
from simcluster.plan.plan import Plan
from simcluster.plan.planner import StrategyPlanner
from simcluster.plan.planner_base import Planner
from simcluster.plan.spec import FrameworkSpec, ParallelSpec, Task

_PLANNERS: Mapping[str, type[Planner]] = {"manual": manual.ManualPlanner, "auto": AutoPlanner}


def make_plan(
    model: Model,
    task: Task,
    parallel: ParallelSpec,
    framework: FrameworkSpec,
    cluster: Cluster,
    algorithms: Selection = AUTOMATIC,
    inputs: InputPipeline | None = None,
) -> Plan:
    """The plan of a model on a cluster; PlanError, with every reason that can be given, if it
    is impossible.
    """
    planner = _PLANNERS.get(parallel.mode, StrategyPlanner)
    return planner(model, task, parallel, framework, cluster, algorithms, inputs).plan()
