"""A job as its run takes it, and what happened in one run."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from simcluster.deferred_dataclass import dataclass
from simcluster.job.job_costs import JobPhase
from simcluster.job.recovery import RecoveryCosts, RecoveryPolicy, Survivors
from simcluster.job.timeline.cluster_state import ClusterState, StepSummary
from simcluster.job.timeline.job_ledger import JobLedger
from simcluster.job.timeline.members import KeyMoves, MemberChange
from simcluster.job.timeline.trainer import SaveRhythm


@dataclass(frozen=True, slots=True)
class Job:
    """A job, with everything that its run depends on but the incidents and the steps of cluster states."""

    steps: int
    """Full steps until training is done."""
    rhythm: SaveRhythm
    """Checkpoints."""
    policy: RecoveryPolicy
    """What is done about a loss."""
    costs: RecoveryCosts
    """How long the steps of a recovery take."""
    survivors: Survivors
    """Who holds what."""
    devices_of_host: tuple[tuple[int, int], ...]
    """First device of every host, and that behind its last."""
    num_spares: int | None = None
    """Hosts that stand ready; None: always one."""
    first_start: tuple[JobPhase, ...] = ()
    """What is before the first step."""
    key_moves: KeyMoves | None = None
    """What moving the keys of parameter servers takes; None: there are none."""
    first_load_s: float = 0.0
    """What is loaded before the first step, and again after a failure before the first checkpoint."""

    def costs_now(self, *, is_saved: bool) -> RecoveryCosts:
        """What recoveries take, once there is a checkpoint of this job or before."""
        return self.costs if is_saved else replace(self.costs, load_s=self.first_load_s)


@dataclass(frozen=True, slots=True)
class Recovery:
    """One loss and how the job came back from it."""

    at_ns: int
    cause: str
    policy: str
    source: str
    back_ns: int
    """When training went on."""
    lost_samples: int
    """That had been trained on and were lost."""
    interrupted: int
    """How often something else broke on the way."""


@dataclass(frozen=True, slots=True)
class JobRecord:
    """What happened in one run of a job."""

    end_ns: int
    """When training was done."""
    nominal: StepSummary
    """A step of the whole, healthy cluster."""
    ledger: JobLedger
    """Where the time went."""
    incidents: Counter[tuple[str, str]]
    """How many, by (cause, effect), that hit the job."""
    recoveries: tuple[Recovery, ...]
    """In the order of time."""
    num_saves: int
    """Checkpoints."""
    states: Counter[ClusterState]
    """How often the job trained in a state of the cluster."""
    members: tuple[MemberChange, ...] = ()
    """Which workers and parameter servers left, failed, joined and came back."""
    unnoticed: int = 0
    """Corruptions of the state that nobody had noticed at the end."""
