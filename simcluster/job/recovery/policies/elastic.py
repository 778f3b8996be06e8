"""Workers of parameter servers go on without those that are lost, which join again when they are back."""

from __future__ import annotations

from typing import ClassVar

from simcluster.job.job_costs import JobPhase
from simcluster.job.recovery.recovery_costs import RecoveryCosts
from simcluster.job.recovery.recovery_policy import Loss, RecoveryPlan, RecoveryPolicy, StateSource, Survivors


class Elastic(RecoveryPolicy):
    """Nothing is stopped: there is no communicator that all are in.

    Where servers wait for the gradients of all workers, these wait at their gates until a lost one is missed;
    else they notice nothing. A server that is lost is waited for until another process holds its keys, or the
    other servers do (``takes_over``), as the last checkpoint has them: their updates since then are lost,
    those of other servers are not. Steps train on fewer samples meanwhile, so the result is not that of the
    uninterrupted run. Without the scheduler, or any worker, the job restarts.
    """

    kind: ClassVar[str] = "elastic"
    is_exact: ClassVar[bool] = False
    keys: ClassVar[tuple[str, ...]] = ("lost_server",)
    goes_on: ClassVar[bool] = True

    def refusal(self, survivors: Survivors, num_spares: int | None) -> str:
        """There must be parameter servers, a second worker, and nothing that workers add up by themselves."""
        if not survivors.servers:
            return "without parameter servers all ranks meet in collectives, which stop when one is lost"
        if survivors.meet_for:
            return f"workers add {survivors.meet_for} up among themselves, which stops when one is lost"
        if survivors.takes_over and len(survivors.servers) == 1:
            return "there is one server only: no other can take over its keys"
        return "" if survivors.num_replicas > 1 else "there is one worker only: nobody is left to go on"

    def plan(self, loss: Loss, survivors: Survivors, costs: RecoveryCosts) -> RecoveryPlan | None:
        """What all wait for, and when the lost ones are back; None if scheduler or all workers are lost."""
        lost = loss.lost_replicas | survivors.replicas_of(loss.devices)
        gone = lost | survivors.replicas_of(loss.absent)
        if len(survivors.host_of) - 1 in loss.devices or len(gone) >= survivors.num_replicas:
            return None
        missed = JobPhase("detect", costs.heartbeat_s)
        phases: tuple[JobPhase, ...] = (missed,) if survivors.waits_for_all else ()
        servers = survivors.servers.intersection(loss.devices) - loss.absent
        taken_over: frozenset[int] = frozenset()
        if servers and survivors.takes_over and survivors.servers - servers - loss.absent:
            phases, taken_over = (missed, JobPhase("load", costs.load_s)), servers
        elif servers:
            replace = (JobPhase("replace", costs.replace_s),) if loss.replaced else ()
            phases = (missed, *replace, *costs.processes, JobPhase("load", costs.load_s))
        return RecoveryPlan(
            self.kind,
            StateSource.SURVIVORS,
            False,
            phases,
            lost,
            taken_over=taken_over,
            rejoins=costs.processes,
        )
