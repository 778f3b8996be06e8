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
    """Bounds on one figure of the result; both included. Numbers are in SI units, or have the unit of the
    figure: ``8.5 s``, ``64 GiB``, ``45 %``, ``250 k tokens/s``. Of ``memory``: the verdict.
    """

    min: float | Name | None = None
    """The least that is accepted."""

    max: float | Name | None = None
    """The most that is accepted."""

    verdict: Literal["fits", "tight", "does not fit"] | None = None
    """Of ``memory``: whether the plan is expected to fit. One that is to run out of memory then passes as
    long as it does."""

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
    """What the scenario is called in reports."""

    cluster: ClusterSpec
    """The hardware."""

    framework: FrameworkSpec = Field(default=IDEAL, validate_default=True)
    """A framework profile, with other switches where it says so: ``{use: megatron-core, prefetch: 2}``."""

    model: ModelSpec
    """What is trained, or answers."""

    training: TrainingSpec | None = None
    """Batch, sequence length, precision, optimizer."""

    inference: InferenceSpec | None = None
    """In place of training: prompts, and how many tokens are generated behind them."""

    data: DataSpec | None = None
    """How every device gets its part of the batch; absent: it is there."""

    parallel: ParallelSpec
    """The parallel plan."""

    collectives: CollectivesSpec = CollectivesSpec()
    """Choice of collective algorithms."""

    job: JobSpec | None = None
    """A run over days: launch, checkpoints, failures; absent: steps alone."""

    tenants: tuple[TenantSpec, ...] = ()
    """Other scenarios that run at the same time on other hosts of the cluster.

    All begin together. Who is through with its ``run.steps`` begins again, until all are, so that every one
    meets the traffic of all others for as long as it is timed; its step time is the mean over the first
    ``run.steps``, its slowdown that over the same with nobody else there.
    """

    run: RunSpec = RunSpec()
    """How much is simulated."""

    expect: dict[Name, BoundSpec] = {}
    """Bounds on figures of the result, checked by ``simcluster check``."""

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
