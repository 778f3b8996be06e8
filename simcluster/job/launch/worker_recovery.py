"""What happens when a worker dies: the dynamic cluster's own recovery, or the whole job again."""

from __future__ import annotations

import random

from simcluster.deferred_dataclass import dataclass
from simcluster.job.job_costs import JobPhase
from simcluster.job.launch.launch_method import Rendezvous, launcher_of
from simcluster.job.launch.launch_setting import LaunchSetting
from simcluster.job.launch.launch_spec import LaunchSpec
from simcluster.job.launch.start_simulation import simulate_start


@dataclass(frozen=True, slots=True)
class WorkerRecovery:
    """From the death of a worker until all could go on, were it not for what must be loaded.

    Loading a checkpoint and the steps since it are not part of it. ``survivors`` says whether the others kept
    their processes; ``reason`` why they did not.
    """

    phases: tuple[JobPhase, ...]
    survivors: bool
    reason: str = ""

    @property
    def seconds(self) -> float:
        """All phases together."""
        return sum(phase.seconds for phase in self.phases)


def recover_worker(spec: LaunchSpec, setting: LaunchSetting, seed: int = 0) -> WorkerRecovery | None:
    """The recovery of one worker under MS_ENABLE_RECOVERY (disaster recovery of a dynamic cluster).

    It is noticed when no heartbeat has come for MS_NODE_TIMEOUT; the scheduler accepts the worker that takes
    its place when the old heartbeat has expired; survivors wait. Without recovery the whole job starts again.
    None where nothing is known of how the launcher learns of it.
    """
    if launcher_of(spec).rendezvous is not Rendezvous.SCHEDULER or not spec.heartbeats:
        return None
    draws = random.Random(f"recovery {seed}")
    since = spec.costs.heartbeat * draws.random()
    noticed = JobPhase("death noticed", max(0.0, spec.node_timeout - since))
    again = simulate_start(spec.at_restart, setting, seed).start_up.phases
    job = setting.allocation.job
    reason = "" if spec.recovery else "MS_ENABLE_RECOVERY is off"
    if spec.recovery and job and job.roles["Worker"].restartPolicy == "Never":
        reason = "restartPolicy of the MSJob's Workers is Never: nobody starts a dead one again"
    if reason:
        return WorkerRecovery((noticed, *again), survivors=False, reason=reason)
    started = spec.costs.process + spec.costs.process_spread * draws.random()
    back = JobPhase("worker restarted and accepted", max(started, spec.rejoin_wait))
    rest = tuple(phase for phase in again if phase.name in ("communicators", "graph compilation"))
    return WorkerRecovery((noticed, back, *rest), survivors=True)
