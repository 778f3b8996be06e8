"""Interleaved 1F1B on slices of sequences (MindSpore's ``seqvpp``)."""

from __future__ import annotations

from typing import ClassVar

from simcluster.deferred_dataclass import dataclass
from simcluster.plan.pipeline import Action, ChunkedSchedule, SlicedSchedule, sliced_interleaved_actions


@dataclass(frozen=True)
class SeqVpp(SlicedSchedule, ChunkedSchedule):
    """Bubble over compute (p - 1) / (v n m) with v chunks and n slices of equal work.

    Micro-batches go in cycles of p / n, so that their slices are as many as there are stages. A stage begins
    with 2 (p - stage - 1) + (v - 1) n c + n - 1 forwards of slices, where c are the micro-batches of the
    first cycle, or all there are, and holds one more (MindSpore's seqpipe_scheduler.cc).
    """

    kind: ClassVar[str] = "seqvpp"

    def stage(self, stage: int, num_stages: int, num_micro_batches: int) -> tuple[Action, ...]:
        """Cycles of stages / slices micro-batches; PlanError if that makes none."""
        return sliced_interleaved_actions(
            stage, num_stages, num_micro_batches, self.chunks, self.slices, behind=2
        )
