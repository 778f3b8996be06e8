"""What every planner is given, whichever way it comes to a plan."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from simcluster.cluster import Cluster
from simcluster.collectives import Selection
from simcluster.model import FrameworkDependent, Model
from simcluster.plan.data import InputPipeline
from simcluster.plan.plan import Plan
from simcluster.plan.spec import FrameworkSpec, ParallelSpec, Task
from simcluster.plan.switches import AttentionKernels, LogitsFormat
from simcluster.work import DType


@dataclass
class Planner(ABC):
    """What a scenario says of model, cluster and parallelism; without ``inputs`` they cost nothing."""

    model: Model
    task: Task
    parallel: ParallelSpec
    framework: FrameworkSpec
    cluster: Cluster
    algorithms: Selection
    inputs: InputPipeline | None

    def computed(self, model: Model) -> Model:
        """A model as the framework computes it."""
        if not isinstance(model, FrameworkDependent):
            return model
        return model.computed(
            flash=self.framework.attention is not AttentionKernels.UNFUSED,
            logits=DType.FP32 if self.framework.logits is LogitsFormat.FP32 else None,
        )

    @abstractmethod
    def plan(self) -> Plan:
        """The plan; PlanError if it is impossible, with every reason that can be told."""
