"""Training goes on with fewer data ranks, and grows back when hosts are there again."""

from __future__ import annotations

from typing import ClassVar

from simcluster.job.job_costs import JobPhase
from simcluster.job.recovery.recovery_costs import RecoveryCosts
from simcluster.job.recovery.recovery_policy import Loss, RecoveryPlan, RecoveryPolicy, StateSource, Survivors


class Shrink(RecoveryPolicy):
    """Replicas of the data that lost a rank are left out until their hosts are replaced.

    Every other replica keeps its share of the batch, so that steps train on fewer samples: the result is not
    that of the uninterrupted run. Where the survivors hold the whole state only the step that was cut is
    lost; else the last full checkpoint is read. Processes that fail without their host start again.
    """

    kind: ClassVar[str] = "shrink"
    is_exact: ClassVar[bool] = False
    keys: ClassVar[tuple[str, ...]] = ("replica_copy",)

    def refusal(self, survivors: Survivors, num_spares: int | None) -> str:
        """There must be a second replica of the data."""
        if survivors.num_replicas > 1:
            return ""
        return "there is one replica of the data only: without some of its ranks nothing can go on"

    def plan(self, loss: Loss, survivors: Survivors, costs: RecoveryCosts) -> RecoveryPlan | None:
        """Communicators, and a load where survivors do not hold everything; None if no replica is left."""
        lost = loss.lost_replicas
        start = costs.start.phases
        if loss.replaced:
            lost, start = lost | survivors.replicas_of(loss.devices), costs.communicators
        if len(lost) >= survivors.num_replicas:
            return None
        if survivors.keep_slices(loss.devices):
            copy = () if loss.replaced else (JobPhase("copy", costs.copy_s),)
            return RecoveryPlan(self.kind, StateSource.SURVIVORS, False, (*start, *copy), lost)
        phases = (*start, JobPhase("load", costs.load_s))
        return RecoveryPlan(self.kind, StateSource.CHECKPOINT, False, phases, lost)
