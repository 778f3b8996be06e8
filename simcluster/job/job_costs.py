"""What the parts of a job cost: values that launch and checkpoints give, and that the run over days takes."""

from __future__ import annotations

import math

from simcluster.deferred_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class JobPhase:
    """One step of starting or of recovering: what it is called, and how long it takes."""

    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class StartUp:
    """Everything before the first step, phase after phase."""

    phases: tuple[JobPhase, ...]

    @property
    def seconds(self) -> float:
        """From the first process that starts to the first step."""
        return math.fsum(phase.seconds for phase in self.phases)


@dataclass(frozen=True, slots=True)
class SaveCost:
    """One checkpoint: training stands still for ``blocking_s``; then, for ``background_s``, it is written
    beside training, whose steps take ``step_s`` meanwhile: the usual step time where the two share nothing.
    """

    num_bytes: int
    """Of the whole checkpoint, over all ranks."""

    blocking_s: float
    background_s: float
    step_s: float
    late_s: float = 0.0
    """Of ``blocking_s``, the time that training waits until the checkpoint before is written."""


@dataclass(frozen=True, slots=True)
class LoadCost:
    """One checkpoint read back by all ranks."""

    num_bytes: int
    """That are read in all, over all ranks."""

    seconds: float
