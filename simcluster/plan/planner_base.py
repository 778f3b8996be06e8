"""What every planner is given, whichever way it comes to a plan."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from simcluster.cluster import Cluster
from simcluster.collectives import Selection
from simcluster.model import Model
from simcluster.plan.data import InputPipeline
from simcluster.plan.plan import Plan
from simcluster.plan.spec import FrameworkSpec, ParallelSpec, Task


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

    @abstractmethod
    def plan(self) -> Plan:
        """The plan; PlanError if it is impossible, with every reason that can be told."""
