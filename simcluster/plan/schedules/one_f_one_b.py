"""1F1B (PipeDream-Flush, arXiv 2006.09503): as few activations alive as the pipeline is deep from here."""

from __future__ import annotations

from typing import ClassVar

from simcluster.deferred_dataclass import dataclass
from simcluster.plan.pipeline import BACKWARD, FORWARD, Action, Schedule, in_pairs, vocabulary_actions


@dataclass(frozen=True)
class OneFOneB(Schedule):
    """Keeps at most ``p - stage`` micro-batches' activations; bubble over compute (p - 1) / m.

    In ``pairs``, where every backward runs beside a forward, 2 (p - stage). With the ``vocabulary`` on all
    stages two more, or half as many again.
    """

    kind: ClassVar[str] = "1f1b"

    pairs: bool = False
    vocabulary: str | None = None

    def stage(self, stage: int, num_stages: int, num_micro_batches: int) -> tuple[Action, ...]:
        """Warm-up forwards, then one forward one backward, then the backwards that are left."""
        if self.vocabulary:
            return vocabulary_actions(stage, num_stages, num_micro_batches, self.vocabulary)
        # In pairs a micro-batch comes back later: every stage on its way takes a forward and a backward.
        behind = (num_stages - stage - 1) * (2 if self.pairs else 1)
        warmup = min(behind, num_micro_batches)
        actions = [Action(FORWARD, index) for index in range(warmup)]
        for index in range(num_micro_batches - warmup):
            actions += [Action(FORWARD, warmup + index), Action(BACKWARD, index)]
        actions += [Action(BACKWARD, index) for index in range(num_micro_batches - warmup, num_micro_batches)]
        return in_pairs(actions) if self.pairs else tuple(actions)

    def overlaps(self, num_stages: int) -> bool:
        """With the vocabulary on all stages, of which each is then between other passes."""
        return self.vocabulary is not None
