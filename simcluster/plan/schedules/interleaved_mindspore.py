"""Interleaved 1F1B with MindSpore's rounds: what is left over is spread, not a round of its own."""

from __future__ import annotations

from typing import ClassVar

from simcluster.deferred_dataclass import dataclass
from simcluster.plan.pipeline import Action, ChunkedSchedule, interleaved_actions, spread_rounds


@dataclass(frozen=True)
class InterleavedMindSpore(ChunkedSchedule):
    """As ``interleaved`` where the micro-batches are a multiple of the stages.

    There are max(1, m // p) rounds, the first of which take one of the rest each. A stage begins with
    (v - 1) m0 + 2 (p - stage - 1) forwards, where m0 are the micro-batches of the first round, or all there
    are (MindSpore's pipeline_interleave).
    """

    kind: ClassVar[str] = "interleaved_mindspore"

    def stage(self, stage: int, num_stages: int, num_micro_batches: int) -> tuple[Action, ...]:
        """Rounds of at least as many micro-batches as stages, if there are so many."""
        rounds = spread_rounds(num_micro_batches, num_stages)
        warmup = (self.chunks - 1) * rounds[0] + 2 * (num_stages - stage - 1)
        return interleaved_actions(rounds, self.chunks, warmup)
