"""The whole job goes to other hosts."""

from __future__ import annotations

from typing import ClassVar

from simcluster.job.job_costs import JobPhase
from simcluster.job.recovery.recovery_costs import RecoveryCosts
from simcluster.job.recovery.recovery_policy import Loss, RecoveryPlan, RecoveryPolicy, StateSource, Survivors


class Relocate(RecoveryPolicy):
    """The job is put into the queue again and starts on other hosts, from the last full checkpoint.

    Devices that were slow stay behind.
    """

    kind: ClassVar[str] = "relocate"
    is_exact: ClassVar[bool] = True
    keys: ClassVar[tuple[str, ...]] = ("queue",)

    def refusal(self, survivors: Survivors, num_spares: int | None) -> str:
        """There must be as many other hosts as the job has."""
        needed = max(survivors.host_of, default=0) + 1
        if num_spares is None or num_spares >= needed:
            return ""
        return f"the job has {needed} hosts, and {num_spares} others are spare"

    def plan(self, loss: Loss, survivors: Survivors, costs: RecoveryCosts) -> RecoveryPlan | None:
        """Queue, start, communicators and load; None while too few other hosts are free."""
        needed = max(survivors.host_of, default=0) + 1
        if loss.num_spares is not None and loss.num_spares < needed:
            return None
        phases = (JobPhase("queue", costs.queue_s), *costs.start.phases, JobPhase("load", costs.load_s))
        return RecoveryPlan(
            self.kind, StateSource.CHECKPOINT, waits_for_hosts=False, phases=phases, moves=True
        )
