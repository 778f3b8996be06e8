"""A plan in the scenario's mode: derived from strategies, or written by hand."""

from __future__ import annotations

from simcluster.cluster import Cluster
from simcluster.collectives import AUTOMATIC, Selection
from simcluster.errors import PlanError
from simcluster.model import Model
from simcluster.plan.inference_spec import InferenceSpec, Task
from simcluster.plan.inputs import Inputs
from simcluster.plan.manual.plan import manual_plan
from simcluster.plan.plan import Plan
from simcluster.plan.planner import layout_plan
from simcluster.plan.spec import FrameworkSpec, ParallelSpec


def make_plan(
    model: Model,
    task: Task,
    parallel: ParallelSpec,
    framework: FrameworkSpec,
    cluster: Cluster,
    algorithms: Selection = AUTOMATIC,
    inputs: Inputs | None = None,
) -> Plan:
    """The plan of a model on a cluster; PlanError if it is impossible, with every reason it can tell."""
    if parallel.mode != "manual":
        return layout_plan(model, task, parallel, framework, cluster, algorithms, inputs)
    if isinstance(task, InferenceSpec):
        raise PlanError("programs that are written by hand train", path="parallel.mode")
    return manual_plan(model, task, parallel, framework, cluster, algorithms, inputs)
