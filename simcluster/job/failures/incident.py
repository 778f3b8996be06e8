"""What breaks in a job, and when: values that drawing and listing make, and that the run over days takes."""

from __future__ import annotations

from enum import StrEnum

from simcluster.deferred_dataclass import dataclass


class FailureEffect(StrEnum):
    """What a failure does to the job."""

    STOP = "stop"
    """Something is gone: the collective in flight stalls, and the job has to recover."""
    HANG = "hang"
    """Processes live and send heartbeats, but one waits for ever: only the collective time-out finds it."""
    SLOW = "slow"
    """A device computes, or a link carries, less for a time."""
    TRANSIENT = "transient"
    """A network error that is repeated until it succeeds; one that lasts too long stops the job."""
    CORRUPT = "corrupt"
    """Values of the state are wrong, and nobody notices for some time: checkpoints since then are, too."""
    LEAVE = "leave"
    """Planned: workers or parameter servers go, and the others go on."""
    JOIN = "join"
    """Planned: they come, or come back."""
    MAINTENANCE = "maintenance"
    """Known before: the job saves, ends, and begins again."""


@dataclass(frozen=True, slots=True)
class Incident:
    """One failure, or maintenance."""

    at_ns: int
    """When, from the begin of the job."""

    cause: str
    """What it is called in reports."""

    component: str
    """What kind of component failed."""

    effect: FailureEffect
    """What it does to the job."""

    hosts: tuple[int, ...] = ()
    """Hosts that it takes, or none."""

    devices: tuple[int, ...] = ()
    """Devices that failed or are slow; of a host that failed, none are named."""

    replaces: bool = True
    """Whether its hosts have to be replaced before the job goes on."""

    lasts_ns: int = 0
    """How long a slow device, a transient error or maintenance lasts, or a corruption is not noticed."""

    factor: float = 1.0
    """What is left of the rate of a slow device or link."""
