"""How long the steps of a recovery take: values that the scenario, the launch and checkpoints give."""

from __future__ import annotations

from simcluster.deferred_dataclass import dataclass
from simcluster.job.failures import Lognormal
from simcluster.job.job_costs import JobPhase, StartUp

STOP = "stop"
"""The phase in which the processes of a job are ended."""

COMMUNICATORS = "communicators"
"""The phase of a start that makes communicators, by its name: processes that run already need it, too."""


@dataclass(frozen=True, slots=True)
class RecoveryCosts:
    """Seconds of every step of a recovery."""

    heartbeat_s: float
    """Until a process that is gone is missed."""

    collective_timeout_s: float
    """Until a collective that nobody ends is given up: what finds a process that hangs."""

    retry_s: float
    """Until a transfer that is repeated is given up."""

    abort_s: float
    """Ends the processes of the job."""

    replace_s: float
    """From asking for a host to having it, if one is free."""

    queue_s: float
    """Until all hosts of the job are there at another place."""

    swap_s: float
    """Puts a hot spare, whose processes run already, into the place of a host."""

    copy_s: float
    """Copies the state of one device from another one that holds the same."""

    memory_load_s: float
    """Copies the state of a host from the memory of another one."""

    load_s: float
    """Reads a checkpoint."""

    start: StartUp
    """Everything from the first process to the first step, without the checkpoint."""

    repair: Lognormal
    """How long a host that failed is away, in seconds."""

    rejoin: tuple[JobPhase, ...] | None = None
    """Where all others wait while a process that died comes back (MS_ENABLE_RECOVERY): from its start to the
    first step, without the checkpoint. None: nobody waits, and all processes start again."""

    def restart(self, *, others_wait: bool) -> tuple[JobPhase, ...]:
        """The phases of a restart behind the detection of a failure, without waiting for a host.

        ``others_wait``: whether all other processes run and can wait, where the launcher lets them.
        """
        load = JobPhase("load", self.load_s)
        if others_wait and self.rejoin is not None:
            return (*self.rejoin, load)
        return (JobPhase(STOP, self.abort_s), *self.start.phases, load)

    @property
    def communicators(self) -> tuple[JobPhase, ...]:
        """The phases of a start that make communicators; of a start that names none, nothing."""
        return tuple(phase for phase in self.start.phases if COMMUNICATORS in phase.name)

    @property
    def processes(self) -> tuple[JobPhase, ...]:
        """The phases of a start that a process needs which is in no communicator."""
        return tuple(phase for phase in self.start.phases if COMMUNICATORS not in phase.name)
