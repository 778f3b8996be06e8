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
    """Checkpoints in host memory: ``{every: 1, save: 0.5 s, load: 5 s}``."""

    every: PositiveInt = 1
    """Steps from one checkpoint to the next."""

    save: Duration = 0.0
    """How long training pauses for a checkpoint; by default not at all: Gemini (SOSP 2023) saves every
    iteration without overhead."""

    load: Duration = 10.0
    """Time to read it back from a neighbouring host: assumed, some 100 GB of a host at 100 Gb/s."""

    copies: Annotated[int, Field(ge=2)] = 2
    """Hosts that hold a copy of each state: groups of this many neighbouring hosts keep one another's; hosts
    that are left over join the last group, as a ring."""


class SimpleCheckpointSpec(Section):
    """Full checkpoints of known cost, instead of ``job.checkpoints``: ``{every: 30 min, save: 20 s, load: 60
    s}``.
    """

    every: Duration | PositiveInt
    """From the end of one checkpoint to the start of the next: a time, or a number of steps."""

    save: Duration
    """How long training pauses for a checkpoint."""

    load: Duration
    """How long loading a checkpoint takes."""

    background: Duration = 0.0
    """How long it is then written in the background before it is complete; this does not slow training."""


class RecoverySpec(Section):
    """What is done after a failure: ``restart``, or ``{policy: replica, heartbeat: 30 s}``."""

    shorthand: ClassVar[str] = "policy"

    policy: Name = Field(default="restart", json_schema_extra=_kinds_in_schema)
    """How a lost device or host is dealt with; where the policy cannot help, the job restarts from the last
    full checkpoint."""

    heartbeat: Duration | None = None
    """Time until a lost process is noticed; if absent, as ``job.launch`` says where workers register at a
    scheduler, or else 40 s, the grace period of a Kubernetes node that is not ready (its docs)."""

    collective_timeout: Duration | None = None
    """Timeout of a collective that never completes; if absent, 1836 s on Ascend (HCCL_EXEC_TIMEOUT),
    elsewhere that of the framework profile, or 10 min, as of PyTorch's process groups since 2.2, Megatron-LM
    and DeepSpeed."""

    retry: Duration = 30.0
    """Time until a transfer that is being retried is given up: NCCL_IB_TIMEOUT 20 (4.3 s) times 7 retries."""

    abort: Duration = 30.0
    """Time to terminate the processes: assumed, nothing is published; MindSpore accepts a restarted worker
    after 30 s."""

    replace: Duration = 5 * MINUTE
    """Time from requesting a host to having it, if one is free: 4 to 7 min in a cloud (Gemini, SOSP 2023)."""

    queue: Duration = 10 * MINUTE
    """For policy relocate: queueing time until other hosts are available for the whole job; assumed, replace
    it by your own."""

    swap: Duration = 10.0
    """For policy spare: time to put a spare host in place of a failed one; assumed."""

    start: Duration | None = None
    """Time to start the processes, up to their last preparation; if absent, from ``job.launch``, or else 270
    s."""

    communicators: Duration | None = None
    """Time to create the communicators; if absent, from ``job.launch``, or else 30 s (MegaScale: under 30 s
    for 10,000 GPUs). With the default of ``start`` this makes the 5 min of arXiv 2410.21680."""

    replica_copy: Duration = 10.0
    """For policies replica and shrink: time to copy a device's state from another device; assumed: 30 GB at
    25 GB/s take 1.2 s."""

    spares: NonNegativeInt | None = None
    """Number of spare hosts; if absent, one is always available."""

    repair: Duration = 24 * 3600.0
    """Mean time until a failed host is back among the spares: assumed; LANL saw under an hour to over a day,
    lognormal (Schroeder and Gibson, DSN 2006)."""

    repair_shape: Annotated[float, Field(ge=0)] = 1.0
    """Standard deviation of the logarithm of the repair time: assumed."""

    lost_server: Literal["replace", "take_over"] = "replace"
    """For policy elastic: what happens to the keys of a lost parameter server: all wait until another process
    holds them (replace), or the other servers take them over until it is back."""

    memory: MemorySaveSpec | None = None
    """Checkpoints in host memory, for policy memory."""

    checkpoint: SimpleCheckpointSpec | None = None
    """Full checkpoints of known cost, if there is no ``job.checkpoints``."""

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
        return self

    @property
    def remarks(self) -> tuple[str, ...]:
        """Which written keys change nothing: those of other policies, and repairs where spares never end.

        They are not refused, so that one scenario can be run under every policy.
        """
        readers: dict[str, list[str]] = {}
        for policy in policy_kinds().values():
            for key in policy.keys:
                readers.setdefault(key, []).append(policy.kind)
        unread = (
            f"job.recovery.{key} changes nothing under policy {self.policy}: "
            f"it is for {' and '.join(policies)}"
            for key, policies in readers.items()
            if key in self.model_fields_set and self.policy not in policies
        )
        endless = (
            f"job.recovery.{key} changes nothing without job.recovery.spares: there is always another host"
            for key in ("repair", "repair_shape")
            if key in self.model_fields_set and self.spares is None
        )
        return (*unread, *endless)

    @property
    def in_memory(self) -> MemorySaveSpec | None:
        """Checkpoints in memory, as written or not, where the policy needs them."""
        return (self.memory or MemorySaveSpec()) if self.policy == "memory" else None

    @property
    def made(self) -> RecoveryPolicy:
        """The policy."""
        return policy_kinds()[self.policy]()
