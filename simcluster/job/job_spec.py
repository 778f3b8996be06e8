"""The ``job:`` section: a run over days."""

from __future__ import annotations

from pydantic import Field, model_validator

from simcluster.document import Refused, Section
from simcluster.job.checkpoints import CheckpointsSpec, DisksSpec, ReplicasSpec
from simcluster.job.failures import FailuresSpec
from simcluster.job.launch import LaunchSpec
from simcluster.job.membership_spec import MembershipChangeSpec
from simcluster.job.recovery import RecoverySpec


class JobSpec(Section):
    """A run over days: launch, checkpoints, failures, recovery."""

    steps: int = Field(ge=1)
    """Training steps until the job is complete."""

    launch: LaunchSpec | None = None
    """How the job is started."""

    checkpoints: CheckpointsSpec | None = None
    """What is saved, where, and how often."""

    failures: FailuresSpec = Field(default_factory=FailuresSpec)
    """What fails, and when."""

    membership: tuple[MembershipChangeSpec, ...] = ()
    """Workers and parameter servers that leave and join as planned while the others keep training."""

    recovery: RecoverySpec = Field(default_factory=RecoverySpec)
    """What is done after a failure."""

    @model_validator(mode="after")
    def _keeps_enough(self) -> JobSpec:
        rejoins = self.launch is not None and self.launch.recovery
        if rejoins and self.checkpoints is not None and self.checkpoints.keep < 2:
            raise Refused(
                "MS_ENABLE_RECOVERY needs two checkpoints: the last one may be cut while it is written",
                path="checkpoints.keep",
            )
        return self

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a user should know of failures: what of them is left out, and which keys change nothing."""
        failures = bool(self.failures.causes or self.failures.events)
        rejoins = self.launch is not None and self.launch.recovery and failures
        policy = self.recovery.policy
        again = f"job.launch.recovery is for policy restart: where {policy} starts processes, all start"
        waits = (again,) if rejoins and policy != "restart" else ()
        return (*waits, *self.recovery.remarks, *self._gone_files)

    @property
    def _gone_files(self) -> tuple[str, ...]:
        """That files that are gone with a host are read all the same."""
        if self.checkpoints is None or not self.failures.replace_hosts:
            return ()
        match self.checkpoints.storage:
            case DisksSpec():
                return (
                    "checkpoints lie on local disks: a host that is replaced has the files of the "
                    "one that failed all the same",
                )
            case ReplicasSpec(copies=copies):
                return (
                    f"checkpoints lie in the memory of {copies + 1} hosts: that all fail at once is left out",
                )
        return ()
