"""1F1B on slices of sequences (MindSpore's ``seqpipe``): micro-batches go through slice by slice."""

from __future__ import annotations

from typing import ClassVar

from simcluster.deferred_dataclass import dataclass
from simcluster.plan.pipeline import Action, SlicedSchedule, interleaved_actions


@dataclass(frozen=True)
class SeqPipe(SlicedSchedule):
    """Bubble over compute (p - 1) / (n m) with n slices of equal work; p - stage + n - 1 slices alive.

    Slices of a sequence go forward in their order, and back the other way round: keys and values of a slice
    get gradients of all behind it. A stage begins with p - stage - 1 + n - 1 forwards, so that the last one
    has a whole sequence when it turns (MindSpore's seqpipe_scheduler.cc).
    """

    kind: ClassVar[str] = "seqpipe"

    def stage(self, stage: int, num_stages: int, num_micro_batches: int) -> tuple[Action, ...]:
        """One micro-batch after the other, slice by slice."""
        warmup = num_stages - stage - 1 + self.slices - 1
        return interleaved_actions([1] * num_micro_batches, 1, warmup, self.slices)
