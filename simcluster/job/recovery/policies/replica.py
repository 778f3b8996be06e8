"""A lost rank gets its state from a rank that holds the same."""

from __future__ import annotations

from typing import ClassVar

from simcluster.job.job_costs import JobPhase
from simcluster.job.recovery.recovery_costs import RecoveryCosts
from simcluster.job.recovery.recovery_policy import Loss, RecoveryPlan, RecoveryPolicy, StateSource, Survivors


class Replica(RecoveryPolicy):
    """Lost ranks start anew and copy weights and states from ranks that hold the same slices.

    Those are what MindSpore's ``restore_group_info_list`` gives: replicas over the data. Only the step that
    was cut is lost. Survivors keep their processes; that the start of the new ones takes as long as that of
    the job is the assumption here.
    """

    kind: ClassVar[str] = "replica"
    is_exact: ClassVar[bool] = True
    keys: ClassVar[tuple[str, ...]] = ("replica_copy",)

    def refusal(self, survivors: Survivors, num_spares: int | None) -> str:
        """Where slices are held by one host only, as under ZeRO or FSDP, there is nothing to copy from."""
        if survivors.is_replicated:
            return ""
        return (
            "no other host holds the same slices of weights and optimizer states as some rank does: "
            "there is no replica to recover it from"
        )

    def plan(self, loss: Loss, survivors: Survivors, costs: RecoveryCosts) -> RecoveryPlan | None:
        """Start, communicators and a copy behind the replacement; None if all holders of a slice are lost."""
        if not survivors.keep_slices(loss.devices):
            return None
        phases = (*costs.start.phases, JobPhase("copy", costs.copy_s))
        return RecoveryPlan(self.kind, StateSource.SURVIVORS, waits_for_hosts=True, phases=phases)
