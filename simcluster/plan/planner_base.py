"""What all planners have in common: their inputs."""

from __future__ import annotations

from abc import ABC, abstractmethod

from simcluster.cluster import Cluster
from simcluster.collectives import Selection
from simcluster.deferred_dataclass import dataclass
from simcluster.model import FrameworkDependent, KernelDependent, Model
from simcluster.plan.data import InputPipeline
from simcluster.plan.plan import Plan
from simcluster.plan.spec import FrameworkSpec, ParallelSpec, Task
from simcluster.plan.switches import AttentionKernels, LogitsFormat, SparseAttentionForm
from simcluster.work import DType


@dataclass
class Planner(ABC):
    """Makes a plan of a model, a task and a cluster."""

    model: Model
    """The model."""
    task: Task
    """The training or inference section."""
    parallel: ParallelSpec
    """The parallel section."""
    framework: FrameworkSpec
    """The framework profile."""
    cluster: Cluster
    """The cluster."""
    algorithms: Selection
    """The algorithms of collectives that the scenario names."""
    inputs: InputPipeline | None
    """The input pipeline; None: inputs cost nothing."""

    def computed(self, model: Model) -> Model:
        """The model with the framework's kernels: its attention, its format of logits."""
        if not isinstance(model, FrameworkDependent):
            return model
        computed = model.computed(
            flash=self.framework.attention is not AttentionKernels.UNFUSED,
            logits=DType.FP32 if self.framework.logits is LogitsFormat.FP32 else None,
        )
        if not isinstance(computed, KernelDependent):
            return computed
        framework = self.framework
        return computed.fitted(
            head_multiple=framework.latent_head_multiple,
            alibi_table=framework.alibi_table,
            gathered=framework.sparse_attention is SparseAttentionForm.GATHERED,
        )

    @abstractmethod
    def plan(self) -> Plan:
        """The plan; PlanError if it is impossible, with every reason that can be told."""
