"""A hot spare takes the place of a lost host."""

from __future__ import annotations

from typing import ClassVar

from simcluster.job.job_costs import JobPhase
from simcluster.job.recovery.recovery_costs import RecoveryCosts
from simcluster.job.recovery.recovery_policy import Loss, RecoveryPlan, RecoveryPolicy, StateSource, Survivors


class Spare(RecoveryPolicy):
    """Spare hosts run their processes already: nothing is replaced or started, only communicators are made.

    All other processes stay; the state is read from the last full checkpoint. Where only a process fails, a
    spare takes its place, too; it starts again and is a spare itself.
    """

    kind: ClassVar[str] = "spare"
    is_exact: ClassVar[bool] = True
    keys: ClassVar[tuple[str, ...]] = ("swap",)

    def refusal(self, survivors: Survivors, num_spares: int | None) -> str:
        """There must be some."""
        return "" if num_spares else "there are no spare hosts; write job.recovery.spares: 1"

    def plan(self, loss: Loss, survivors: Survivors, costs: RecoveryCosts) -> RecoveryPlan | None:
        """Swap, communicators and load; None while fewer spares stand ready than hosts lost processes."""
        if loss.num_spares is not None and loss.num_spares < len(loss.hosts):
            return None
        phases = (JobPhase("swap", costs.swap_s), *costs.communicators, JobPhase("load", costs.load_s))
        return RecoveryPlan(self.kind, StateSource.CHECKPOINT, waits_for_hosts=False, phases=phases)
