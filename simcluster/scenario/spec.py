"""The scenario document as a whole, composed of the sections that other packages define."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

from pydantic import Field, model_validator

from simcluster.cluster import ClusterSpec
from simcluster.collectives import CollectivesSpec
from simcluster.document import Name, Refused, Section
from simcluster.engine import RunSpec
from simcluster.job import JobSpec, check_launch
from simcluster.model import ModelSpec
from simcluster.plan import IDEAL, DataSpec, FrameworkSpec, InferenceSpec, ParallelSpec, Task, TrainingSpec
from simcluster.scenario.library import check_library
from simcluster.scenario.task import check_inference, task_kind
from simcluster.scenario.tenant import TenantSpec, check_hosts, own_devices, own_hosts


class BoundSpec(Section):
    """Bounds on one figure of the result, both inclusive. Numbers are in SI units, or have the unit of the
    figure: ``8.5 s``, ``64 GiB``, ``45 %``, ``250 k tokens/s``. For ``memory``: the verdict.
    """

    min: float | Name | None = None
    """The smallest accepted value."""

    max: float | Name | None = None
    """The largest accepted value."""

    verdict: Literal["fits", "tight", "does not fit"] | None = None
    """For ``memory``: whether the plan is expected to fit. A plan expected to run out of memory passes the
    check as long as it does."""

    @model_validator(mode="after")
    def _has_a_bound(self) -> BoundSpec:
        if self.min is None and self.max is None and self.verdict is None:
            raise Refused("give min, max or both")
        if isinstance(self.min, float) and isinstance(self.max, float) and self.min > self.max:
            raise Refused(f"min {self.min:g} is above max {self.max:g}")
        return self


class ScenarioSpec(Section):
    """A model trained by a parallel plan on a cluster, or answering prompts by one."""

    simcluster: Literal[1]
    """Version of the scenario format."""

    name: Name
    """Name of the scenario in reports."""

    cluster: ClusterSpec
    """The hardware."""

    framework: FrameworkSpec = Field(default=IDEAL, validate_default=True)
    """A framework profile, optionally with some of its settings changed: ``{use: megatron-core, prefetch:
    2}``."""

    model: ModelSpec
    """The model that is trained, or used for inference."""

    training: TrainingSpec | None = None
    """Batch, sequence length, precision, optimizer."""

    inference: InferenceSpec | None = None
    """Instead of training: prompts, and the number of tokens generated after them."""

    data: DataSpec | None = None
    """How every device gets its part of the batch. If absent, the input is always ready."""

    parallel: ParallelSpec
    """The parallel plan."""

    collectives: CollectivesSpec = CollectivesSpec.model_construct()
    """Choice of collective algorithms."""

    job: JobSpec | None = None
    """A run over days: launch, checkpoints, failures. If absent, only training steps are simulated."""

    tenants: tuple[TenantSpec, ...] = ()
    """Other scenarios that run at the same time on other hosts of the cluster.

    All start together. A tenant that has completed its ``run.steps`` starts again until all have completed
    theirs, so that each meets the traffic of all others for as long as it is timed. Its step time is the mean
    over its first ``run.steps``; its slowdown is relative to the same steps when it runs alone.
    """

    run: RunSpec = RunSpec.model_construct()
    """How many steps are simulated, and how."""

    expect: dict[Name, BoundSpec] = {}
    """Bounds on figures of the result, by name of the figure, checked by ``simcluster check``."""

    @model_validator(mode="after")
    def _is_known(self) -> ScenarioSpec:
        check_library(self.cluster)
        filled = self._filled()
        check_hosts(filled.cluster, filled.num_ranks, filled.tenants)
        filled._check_launch()
        if isinstance(filled.task, InferenceSpec):
            others = {"data": filled.data, "tenants": filled.tenants}
            check_inference(filled.parallel, others, filled.run.steps)
        return filled

    def _check_launch(self) -> None:
        """Refused, with the key, if the launcher does not go with the cluster or with parameter servers."""
        allocation = self.cluster.allocation
        if allocation and allocation.job and allocation.job.count("PS") != self.num_servers:
            raise Refused(
                f"the MSJob has {allocation.job.count('PS')} PS, but the plan has {self.num_servers} "
                "parameter servers",
                path="cluster.msjob",
            )
        launch = self.job.launch if self.job else None
        if launch is None:
            return
        try:
            kinds = {group.made.device.kind for group in self.cluster.written}
            hosts = sum(bool(host.ranks) for host in allocation.hosts) if allocation else self._num_hosts
            check_launch(launch, kinds, hosts, self.num_servers)
        except Refused as refused:
            inside = (replace(problem, path=f"job.launch.{problem.path}") for problem in refused.problems)
            raise Refused(*inside) from None

    @property
    def _num_hosts(self) -> int:
        """Hosts that it runs on itself."""
        return self.cluster.num_hosts if self.own_hosts is None else len(self.own_hosts)

    @property
    def num_servers(self) -> int:
        """Parameter servers; their scheduler is one more rank."""
        servers = self.parallel.parameter_server
        return servers.servers if servers else 0

    def _filled(self) -> ScenarioSpec:
        """The same with a mesh whose sizes are numbers."""
        try:
            parallel = self.parallel.filled(own_devices(self.cluster, self.tenants))
        except Refused as refused:
            inside = (replace(problem, path=f"parallel.{problem.path}") for problem in refused.problems)
            raise Refused(*inside) from None
        return self if parallel is self.parallel else self.model_copy(update={"parallel": parallel})

    @property
    def task(self) -> Task:
        """What is done with the model: its training, or inference."""
        return task_kind(self.training, self.inference)

    @property
    def num_ranks(self) -> int:
        """Ranks of the mesh, and those of parameter servers and their scheduler."""
        return math.prod(self.parallel.sizes.values()) + self.parallel.num_server_ranks

    @property
    def own_hosts(self) -> tuple[int, ...] | None:
        """The hosts of the cluster that it runs on itself; None: all."""
        return own_hosts(self.cluster, self.num_ranks, bool(self.tenants))
