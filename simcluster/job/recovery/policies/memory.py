"""Checkpoints in the memory of hosts."""

from __future__ import annotations

from typing import ClassVar

from simcluster.job.job_costs import JobPhase
from simcluster.job.recovery.recovery_costs import RecoveryCosts
from simcluster.job.recovery.recovery_policy import Loss, RecoveryPlan, RecoveryPolicy, StateSource, Survivors


class Memory(RecoveryPolicy):
    """Every host keeps a copy of its own and of its neighbours' state in its memory (Gemini, SOSP 2023).

    What is lost is read from there, as long as one host that keeps a copy of it is left.
    """

    kind: ClassVar[str] = "memory"
    is_exact: ClassVar[bool] = True
    keys: ClassVar[tuple[str, ...]] = ("memory",)

    def refusal(self, survivors: Survivors, num_spares: int | None) -> str:
        """There must be a host for every copy."""
        num_hosts = max(survivors.host_of, default=0) + 1
        if num_hosts == 1:
            return "one host alone has no neighbour that could keep a copy of its state"
        if survivors.memory_copies > num_hosts:
            return f"{num_hosts} hosts cannot keep {survivors.memory_copies} copies of a state"
        return ""

    def plan(self, loss: Loss, survivors: Survivors, costs: RecoveryCosts) -> RecoveryPlan | None:
        """Start, communicators and a load from memory; None if all copies of a host's state are lost."""
        if not survivors.keep_memory(loss.replaced):
            return None
        phases = (*costs.start.phases, JobPhase("load from memory", costs.memory_load_s))
        return RecoveryPlan(self.kind, StateSource.MEMORY, waits_for_hosts=True, phases=phases)
