"""Restart from the last full checkpoint."""

from __future__ import annotations

from typing import ClassVar

from simcluster.job.job_costs import JobPhase
from simcluster.job.recovery.recovery_costs import RecoveryCosts
from simcluster.job.recovery.recovery_policy import Loss, RecoveryPlan, RecoveryPolicy, StateSource, Survivors


class Restart(RecoveryPolicy):
    """All processes end; lost hosts are replaced; everything starts and reads the last full checkpoint.

    Where the launcher lets the others wait (MindSpore's MS_ENABLE_RECOVERY), only what was lost starts.
    """

    kind: ClassVar[str] = "restart"
    is_exact: ClassVar[bool] = True

    def refusal(self, survivors: Survivors, num_spares: int | None) -> str:
        """It always helps."""
        return ""

    def plan(self, loss: Loss, survivors: Survivors, costs: RecoveryCosts) -> RecoveryPlan | None:
        """Start, communicators and load behind the replacement."""
        waits = loss.others_wait and costs.rejoin is not None
        start = costs.rejoin if waits and costs.rejoin is not None else costs.start.phases
        phases = (*start, JobPhase("load", costs.load_s))
        return RecoveryPlan(
            self.kind, StateSource.CHECKPOINT, waits_for_hosts=True, phases=phases, others_wait=waits
        )
