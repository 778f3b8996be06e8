"""``job.launch``: how the job is started."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field, model_validator

from simcluster.document import Duration, Name, NonNegativeInt, PositiveInt, Refused, Section
from simcluster.job.launch.start_costs import StartCostsSpec

Method = Literal["dynamic", "msrun", "mpirun", "rank_table", "ms_operator", "torchrun"]
SCHEDULED = ("dynamic", "msrun", "ms_operator")
"""Methods of the dynamic cluster: workers register at a scheduler."""
Barriers = Literal["none", "ordered", "global"]
"""Who waits behind a communicator that was created."""
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
    """Index of the host among the job's hosts, in the order of their first ranks."""

    by: Duration
    """Delay relative to the other hosts."""


class RetrySpec(Section):
    """Time that a worker waits before it tries again, drawn between these bounds."""

    lower: Duration = 3.0
    """Lower bound: MS_RETRY_INTERVAL_LOWER."""

    upper: Duration = 5.0
    """Upper bound: MS_RETRY_INTERVAL_UPPER."""

    @model_validator(mode="after")
    def _is_a_range(self) -> RetrySpec:
        if self.lower > self.upper:
            raise Refused(f"lower {self.lower:g} s is above upper {self.upper:g} s")
        return self


class LaunchSpec(Section):
    """How the job is started: ``{method: msrun}``."""

    method: Method
    """The launcher: dynamic (scheduler and workers), msrun, mpirun, rank_table, ms_operator or torchrun."""

    script: Name = "train.py"
    """The script that every process runs, in the commands that ``simcluster launch`` shows."""

    port: Port | None = None
    """Port of the scheduler, or of torchrun's store; by default the launcher's own."""

    timeout: Duration | None = None
    """Time limit for all processes to meet: MS_TOPO_TIMEOUT (30 min), msrun's --cluster_time_out (600 s),
    HCCL_CONNECT_TIMEOUT (120 s) or torchrun's rendezvous (600 s)."""

    node_timeout: Duration = 300.0
    """MS_NODE_TIMEOUT: after this time without a heartbeat, a worker is considered dead."""

    heartbeats: bool = True
    """Whether workers send heartbeats (turned off by MS_DISABLE_HEARTBEAT)."""

    retry: RetrySpec = RetrySpec.model_construct()
    """How long a worker waits before it tries to register again."""

    recovery: bool = False
    """MS_ENABLE_RECOVERY: when a worker dies, the others wait and it may rejoin."""

    rejoin_wait: Duration = 30.0
    """Time until the scheduler accepts a worker that rejoins: its old heartbeat must expire first."""

    started: PositiveInt | None = None
    """Worker processes that are actually started; by default as many as ranks. With fewer, all others wait
    until they time out; surplus ones are refused."""

    late: tuple[DelaySpec, ...] = ()
    """Hosts whose processes start later, when the job starts for the first time."""

    gang: bool | None = None
    """Whether Kubernetes places either all pods at once or none (gang scheduling); by default as the MSJob
    says."""

    free_devices: NonNegativeInt | None = None
    """Number of free devices that Kubernetes has for the job; by default as many as it needs."""

    store: Literal["libuv", "tcp", "redis"] = "libuv"
    """The store through which processes of torchrun find each other: PyTorch's own (libuv, its default since
    2.4), its older one, which blocks for every request (tcp), or Redis."""

    barriers: Barriers = "none"
    """After a communicator has been created, no barrier (PyTorch since 2.1), one of its members only
    (ordered), or one of all processes (global, as in older releases: hours on 10,000 devices)."""

    compile: bool | None = None
    """Whether graphs are compiled before the first step; by default they are with MindSpore's launchers."""

    lazy_inline: bool = True
    """Whether repeated blocks are compiled only once (@lazy_inline) instead of every instance."""

    costs: StartCostsSpec = StartCostsSpec.model_construct()
    """Times of the parts of the start."""

    @property
    def at_restart(self) -> LaunchSpec:
        """The launch of a job that starts again: nobody is late or missing as at its first start."""
        return self.model_copy(update={"late": (), "started": None})

    @property
    def detection_s(self) -> float | None:
        """Seconds until a worker that died is missed, in the mean over the time since its last heartbeat;
        infinite without heartbeats, None where no scheduler waits for them.
        """
        if self.method not in SCHEDULED:
            return None
        return max(0.0, self.node_timeout - self.costs.heartbeat / 2) if self.heartbeats else math.inf

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
