"""Interleaved 1F1B (arXiv 2104.04473, section 2.2) in Megatron's order: several chunks on every stage."""

from __future__ import annotations

from typing import ClassVar

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError
from simcluster.plan.pipeline import Action, ChunkedSchedule, in_pairs, interleaved_actions


@dataclass(frozen=True)
class Interleaved(ChunkedSchedule):
    """Bubble over compute (p - 1) / (v m) with v chunks, for more activations: (v - 1) p + 2 (p - stage) - 1.

    Micro-batches go in rounds of as many as there are stages, or in one if they are fewer. A stage begins
    with (v - 1) p + 2 (p - stage - 1) forwards, or all there are (megatron/core/pipeline_parallel).
    """

    kind: ClassVar[str] = "interleaved"

    pairs: bool = False

    def stage(self, stage: int, num_stages: int, num_micro_batches: int) -> tuple[Action, ...]:
        """Rounds of as many micro-batches as stages; PlanError if that does not divide."""
        whole, left = divmod(num_micro_batches, num_stages)
        if whole and left and self.chunks > 1:
            raise PlanError(
                f"{num_micro_batches} micro-batches are not a multiple of the {num_stages} pipeline stages, "
                "which this schedule needs",
                path="parallel.schedule.kind",
                hint="change the number of micro-batches (training.global_batch or micro_batch), or use "
                "interleaved_mindspore, which takes any number",
            )
        rounds = [num_stages] * whole + [left] * (left > 0)
        warmup = (self.chunks - 1) * num_stages + 2 * (num_stages - stage - 1)
        actions = interleaved_actions(rounds, self.chunks, warmup)
        return in_pairs(actions) if self.pairs else actions
