"""Interleaved 1F1B on slices of sequences with fewer of them alive (MindSpore's ``seqsmartvpp``)."""

from __future__ import annotations

from typing import ClassVar

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError
from simcluster.plan.pipeline import Action, ChunkedSchedule, SlicedSchedule, sliced_interleaved_actions


@dataclass(frozen=True)
class SeqSmartVpp(SlicedSchedule, ChunkedSchedule):
    """As ``seqvpp``, but a stage begins with only p - stage - 1 + (v - 1) n c + n - 1 forwards of slices.

    So the first stages hold less; but a transfer has no time in which it could be hidden (MindSpore's
    seqpipe_scheduler.cc, which has it for even numbers of stages).
    """

    kind: ClassVar[str] = "seqsmartvpp"

    def overlaps(self, num_stages: int) -> bool:
        """Nothing is done between what two stages send each other."""
        return num_stages > 1

    def stage(self, stage: int, num_stages: int, num_micro_batches: int) -> tuple[Action, ...]:
        """As seqvpp, begun with fewer forwards; PlanError for an odd number of stages."""
        if num_stages % 2:
            raise PlanError(
                f"seqsmartvpp needs an even number of stages, not {num_stages}",
                path="parallel.schedule.kind",
                hint="use seqvpp",
            )
        return sliced_interleaved_actions(
            stage, num_stages, num_micro_batches, self.chunks, self.slices, behind=1
        )
