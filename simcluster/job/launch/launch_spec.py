"""``job.launch``: how the job is started."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from simcluster.document import Duration, Name, NonNegativeInt, PositiveInt, Refused, Section
from simcluster.job.launch.start_costs import StartCostsSpec

Method = Literal["dynamic", "msrun", "mpirun", "rank_table", "ms_operator", "torchrun"]
SCHEDULED = ("dynamic", "msrun", "ms_operator")
"""Methods of the dynamic cluster: workers register at a scheduler."""
Port = Annotated[int, Field(ge=1024, le=65535)]
"""What a scheduler may listen on."""

_FOR: dict[str, tuple[str, ...]] = {
    "recovery": SCHEDULED,
    "node_timeout": SCHEDULED,
    "heartbeats": SCHEDULED,
    "retry": SCHEDULED,
    "rejoin_wait": SCHEDULED,
    "gang": ("ms_operator",),
    "free_devices": ("ms_operator",),
    "store": ("torchrun",),
    "barriers": ("torchrun",),
    "started": ("dynamic", "msrun", "ms_operator", "rank_table"),
    "port": (*SCHEDULED, "torchrun"),
    "timeout": ("dynamic", "msrun", "ms_operator", "rank_table", "torchrun"),
}
"""Keys that only some methods know."""


class DelaySpec(Section):
    """A host whose processes start late."""

    host: NonNegativeInt
    """Which of the job's hosts, in the order of their first ranks."""

    by: Duration
    """How much later than the others."""


class RetrySpec(Section):
    """How long a worker waits before it tries again: drawn between both."""

    lower: Duration = 3.0
    """MS_RETRY_INTERVAL_LOWER."""

    upper: Duration = 5.0
    """MS_RETRY_INTERVAL_UPPER."""

    @model_validator(mode="after")
    def _is_a_range(self) -> RetrySpec:
        if self.lower > self.upper:
            raise Refused(f"lower {self.lower:g} s is above upper {self.upper:g} s")
        return self


class LaunchSpec(Section):
    """How the job is started: ``{method: msrun}``."""

    method: Method
    """The launcher: dynamic (scheduler and workers), msrun, mpirun, rank_table, ms_operator, torchrun."""

    script: Name = "train.py"
    """What every process runs, in the commands that ``simcluster launch`` shows."""

    port: Port | None = None
    """The port of the scheduler, or of torchrun's store; the method's own, if nothing is written."""

    timeout: Duration | None = None
    """How long all processes have to come together: MS_TOPO_TIMEOUT (30 min), msrun's --cluster_time_out
    (600 s), HCCL_CONNECT_TIMEOUT (120 s) or the rendezvous of torchrun (600 s)."""

    node_timeout: Duration = 300.0
    """MS_NODE_TIMEOUT: without a heartbeat for so long, a worker is taken for dead."""

    heartbeats: bool = True
    """Whether workers send heartbeats (MS_DISABLE_HEARTBEAT)."""

    retry: RetrySpec = RetrySpec()
    """How long a worker waits before it tries to register again."""

    recovery: bool = False
    """MS_ENABLE_RECOVERY: when a worker dies the others wait, and it may come back."""

    rejoin_wait: Duration = 30.0
    """Until the scheduler accepts a worker that comes back: its old heartbeat must expire."""

    started: PositiveInt | None = None
    """Worker processes that are really started: with fewer than ranks all others wait until they give up,
    more are refused. As many as ranks, if nothing is written."""

    late: tuple[DelaySpec, ...] = ()
    """Hosts whose processes start later."""

    gang: bool | None = None
    """Whether Kubernetes places all pods at once or none; as the MSJob says, if nothing is written."""

    free_devices: NonNegativeInt | None = None
    """Devices that Kubernetes has free for the job; as many as it needs, if nothing is written."""

    store: Literal["tcp", "redis"] = "tcp"
    """What processes of torchrun find each other through."""

    barriers: Literal["global", "ordered"] = "global"
    """Whether all processes meet after each communicator that any of them makes, or its own members only."""

    compile: bool | None = None
    """Whether graphs are compiled before the first step; if nothing is written, by MindSpore's launchers."""

    lazy_inline: bool = True
    """Whether repeated blocks are compiled once (@lazy_inline), not every instance of them."""

    costs: StartCostsSpec = StartCostsSpec()
    """Times of the parts of starting."""

    @model_validator(mode="after")
    def _knows_its_keys(self) -> LaunchSpec:
        for key, methods in _FOR.items():
            if key in self.model_fields_set and self.method not in methods:
                raise Refused(f"'{key}' is not for {self.method}, but for {', '.join(methods)}", path=key)
        if self.recovery and not self.heartbeats:
            raise Refused("without heartbeats nobody learns that a worker has died", path="recovery")
        if not self.recovery and "rejoin_wait" in self.model_fields_set:
            raise Refused("nobody comes back without 'recovery: true'", path="rejoin_wait")
        return self
