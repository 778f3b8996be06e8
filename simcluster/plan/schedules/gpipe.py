"""GPipe (arXiv 1811.06965): all forwards, then all backwards."""

from __future__ import annotations

from typing import ClassVar

from simcluster.plan.pipeline import BACKWARD, FORWARD, Action, Schedule


class GPipe(Schedule):
    """Saves every micro-batch's activations; bubble over compute (p - 1) / m."""

    kind: ClassVar[str] = "gpipe"

    def stage(self, stage: int, num_stages: int, num_micro_batches: int) -> tuple[Action, ...]:
        """M forwards, then m backwards in the same order."""
        order = range(num_micro_batches)
        return tuple(Action(kind, index) for kind in (FORWARD, BACKWARD) for index in order)
