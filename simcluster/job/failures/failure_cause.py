"""What may break, as the drawing of incidents takes it."""

from __future__ import annotations

from simcluster.deferred_dataclass import dataclass
from simcluster.job.failures.failure_law import FailureLaw, Lognormal
from simcluster.job.failures.fleet import Component
from simcluster.job.failures.incident import FailureEffect


@dataclass(frozen=True, slots=True)
class FailureCause:
    """A cause of failures of one kind of component, by a law of each component."""

    name: str
    """What it is called in reports."""

    component: Component
    """What fails."""

    effect: FailureEffect
    """What that does to the job."""

    law: FailureLaw
    """The time between failures of one component, in seconds."""

    is_settled: bool
    """Whether components have long been in use when the job begins; else all are new."""

    replaces: bool
    """Whether the host has to be replaced."""

    hosts_each: int
    """Hosts behind a switch, or in a power domain."""

    factor: float
    """What is left of the rate of a slow component."""

    duration: Lognormal | None
    """How long what is no stop lasts; None: of a stop."""

    spread: float = 0.0
    """The chance that another component of the same host fails of the same cause soon after."""

    spread_s: float = 0.0
    """Within which time it does."""
