"""``job.recovery``: the policy, and how long its steps take."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from simcluster.document import Duration, Name, NonNegativeInt, PositiveInt, Refused, Section
from simcluster.errors import nearest
from simcluster.job.recovery.recovery_policy import RecoveryPolicy, policy_kinds

MINUTE = 60.0


def _kinds_in_schema(written: dict[str, Any]) -> None:
    written["enum"] = sorted(policy_kinds())


class MemorySaveSpec(Section):
    """Checkpoints in the memory of hosts: ``{every: 1, save: 0.5 s, load: 5 s}``."""

    every: PositiveInt = 1
    """Steps from one to the next."""

    save: Duration = 0.0
    """How long training stands still for one; nothing, if not written: Gemini (SOSP 2023) saves every
    iteration without overhead."""

    load: Duration = 10.0
    """How long reading it back from a neighbour takes: assumed, some 100 GB of a host at 100 Gb/s."""

    copies: Annotated[int, Field(ge=2)] = 2
    """Hosts that keep each state: groups of so many neighbours keep each other's."""


class SimpleCheckpointSpec(Section):
    """Full checkpoints of known cost, in place of ``job.checkpoints``.

    ``{every: 30 min, save: 20 s, load: 60 s}``.
    """

    every: Duration | PositiveInt
    """From the end of one to the begin of the next: a time, or a number of steps."""

    save: Duration
    """How long training stands still for one."""

    load: Duration
    """How long reading one takes."""

    background: Duration = 0.0
    """How long it is written behind training before it is complete; training is no slower meanwhile."""


class RecoverySpec(Section):
    """What is done when something breaks: ``restart``, or ``{policy: replica, heartbeat: 30 s}``."""

    shorthand: ClassVar[str] = "policy"

    policy: Name = Field(default="restart", json_schema_extra=_kinds_in_schema)
    """What is done about a loss; where it cannot help, the job restarts from the last full checkpoint."""

    heartbeat: Duration = 40.0
    """Until a process that is gone is missed: 40 s is the grace of a Kubernetes node that is not ready (its
    docs); MindSpore's MS_NODE_TIMEOUT is 300 s."""

    collective_timeout: Duration = 10 * MINUTE
    """Until a collective that nobody ends is given up: 10 min of PyTorch's NCCL group since 2.2 and of
    Megatron-LM; HCCL_EXEC_TIMEOUT is 1836 s."""

    retry: Duration = 30.0
    """Until a transfer that is repeated is given up: NCCL_IB_TIMEOUT 20 (4.3 s) times 7 retries."""

    abort: Duration = 30.0
    """Ends the processes: assumed, nothing is published; MindSpore accepts a restarted worker after 30 s."""

    replace: Duration = 5 * MINUTE
    """From asking for a host to having it, if one is free: 4 to 7 min in a cloud (Gemini, SOSP 2023)."""

    queue: Duration = 10 * MINUTE
    """Of policy relocate, until other hosts are there for the whole job: assumed; yours is known to you."""

    swap: Duration = 10.0
    """Of policy spare, puts a spare into a host's place: assumed."""

    start: Duration | None = None
    """From the first process to its last preparation; absent: as ``job.launch`` has it, or else 270 s."""

    communicators: Duration | None = None
    """Makes communicators; absent: as ``job.launch`` has it, or 30 s without it (MegaScale: under 30 s for
    10,000 GPUs). With the default of ``start`` these are the 5 min of arXiv 2410.21680."""

    replica_copy: Duration = 10.0
    """Of policy replica, copies the state of a device from another: assumed; 30 GB at 25 GB/s are 1.2 s."""

    spares: NonNegativeInt | None = None
    """Hosts that stand ready; absent: there is always one."""

    repair: Duration = 24 * 3600.0
    """The mean time until a failed host is back among the spares: assumed; LANL saw under an hour to over a
    day, lognormal (Schroeder and Gibson, DSN 2006)."""

    repair_shape: Annotated[float, Field(ge=0)] = 1.0
    """The deviation of the logarithm of the repair time: assumed."""

    lost_server: Literal["replace", "take_over"] = "replace"
    """Of policy elastic, what becomes of the keys of a parameter server that is lost: all wait until another
    process holds them, or the other servers take them over until it is back."""

    memory: MemorySaveSpec | None = None
    """Checkpoints in the memory of hosts, for policy memory."""

    checkpoint: SimpleCheckpointSpec | None = None
    """Full checkpoints of known cost, where there is no ``job.checkpoints``."""

    @model_validator(mode="before")
    @classmethod
    def _expand(cls, written: Any) -> Any:
        return {"policy": written} if isinstance(written, str) else written

    @model_validator(mode="after")
    def _is_known(self) -> RecoverySpec:
        if self.policy not in policy_kinds():
            raise Refused(
                f"unknown recovery policy '{self.policy}'",
                path="policy",
                hint=nearest(self.policy, policy_kinds()),
            )
        if self.memory is not None and self.policy != "memory":
            raise Refused("checkpoints in memory are for policy memory", path="memory")
        if self.lost_server != "replace" and not self.made.goes_on:
            raise Refused(
                f"policy {self.policy} stops for a lost server: nobody takes its keys over",
                path="lost_server",
                hint="write policy: elastic, or leave it out",
            )
        return self

    @property
    def in_memory(self) -> MemorySaveSpec | None:
        """Checkpoints in memory, as written or not, where the policy needs them."""
        return (self.memory or MemorySaveSpec()) if self.policy == "memory" else None

    @property
    def made(self) -> RecoveryPolicy:
        """The policy."""
        return policy_kinds()[self.policy]()
