"""The scenario document as a whole, composed of the sections of the rooms below."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from simcluster.cluster import ClusterSpec
from simcluster.collectives import CollectivesSpec
from simcluster.document import Name, Refused, Section, Unsupported
from simcluster.engine.spec import RunSpec
from simcluster.errors import nearest
from simcluster.model.spec import ModelSpec
from simcluster.plan.spec import FrameworkSpec, ParallelSpec, TrainingSpec


class BoundSpec(Section):
    """Bounds on one figure of the result, in SI units; both included."""

    min: float | None = None
    """The least that is accepted."""

    max: float | None = None
    """The most that is accepted."""

    @model_validator(mode="after")
    def _has_a_bound(self) -> BoundSpec:
        if self.min is None and self.max is None:
            raise Refused("give min, max or both")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise Refused(f"min {self.min:g} is above max {self.max:g}")
        return self


class ScenarioSpec(Section):
    """A model trained by a parallel plan on a cluster."""

    simcluster: Literal[1]
    """Version of the scenario format."""

    name: Name
    """What the scenario is called in reports."""

    cluster: ClusterSpec
    """The hardware."""

    framework: Name = "ideal"
    """A framework profile."""

    model: ModelSpec
    """What is trained."""

    training: TrainingSpec
    """Batch, sequence length, precision, optimizer."""

    data: Unsupported = None
    """Input pipeline."""

    parallel: ParallelSpec
    """The parallel plan."""

    collectives: CollectivesSpec = CollectivesSpec()
    """Choice of collective algorithms."""

    job: Unsupported = None
    """A run over days: launch, checkpoints, failures."""

    tenants: Unsupported = None
    """Other scenarios on the same cluster."""

    run: RunSpec = RunSpec()
    """How much is simulated."""

    expect: dict[Name, BoundSpec] = {}
    """Bounds on figures of the result, checked by ``simcluster check``."""

    @model_validator(mode="after")
    def _is_known(self) -> ScenarioSpec:
        if self.framework not in FrameworkSpec.entries():
            hint = nearest(self.framework, FrameworkSpec.entries())
            raise Refused(f"unknown framework '{self.framework}'", path="framework", hint=hint)
        return self
