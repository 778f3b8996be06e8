"""1F1B (PipeDream-Flush, arXiv 2006.09503): as few activations alive as the pipeline is deep from here."""

from __future__ import annotations

from typing import ClassVar

from simcluster.plan.pipeline import BACKWARD, FORWARD, Action, Schedule


class OneFOneB(Schedule):
    """Keeps at most ``p - stage`` micro-batches' activations; bubble over compute (p - 1) / m."""

    kind: ClassVar[str] = "1f1b"

    def stage(self, stage: int, num_stages: int, num_micro_batches: int) -> tuple[Action, ...]:
        """Warm-up forwards, then one forward one backward, then the backwards that are left."""
        warmup = min(num_stages - stage - 1, num_micro_batches)
        actions = [Action(FORWARD, index) for index in range(warmup)]
        for index in range(num_micro_batches - warmup):
            actions += [Action(FORWARD, warmup + index), Action(BACKWARD, index)]
        actions += [Action(BACKWARD, index) for index in range(num_micro_batches - warmup, num_micro_batches)]
        return tuple(actions)
