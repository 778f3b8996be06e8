"""Zero bubble H1 (arXiv 2401.10241): 1F1B whose weight gradients wait for what would be a bubble."""

from __future__ import annotations

from typing import ClassVar

from simcluster.plan.schedule import FORWARD, INPUTS, WEIGHTS, Action, Schedule


class ZeroBubbleH1(Schedule):
    """Bubble (p - 1)(f + i - w) of a forward f and the halves i and w of a backward; p micro-batches alive.

    As in 1F1B, but stage s does weight gradients s micro-batches late, so that the gradients that stages
    before it wait for come first.
    """

    kind: ClassVar[str] = "zb_h1"

    def stage(self, stage: int, num_stages: int, num_micro_batches: int) -> tuple[Action, ...]:
        """Warm-up forwards, then forward, input gradient and a late weight gradient; the rest behind."""
        warmup = min(num_stages - stage - 1, num_micro_batches)
        actions = [Action(FORWARD, index) for index in range(warmup)]
        for index in range(num_micro_batches):
            if warmup + index < num_micro_batches:
                actions.append(Action(FORWARD, warmup + index))
            actions.append(Action(INPUTS, index))
            if index >= stage:
                actions.append(Action(WEIGHTS, index - stage))
        left = range(max(0, num_micro_batches - stage), num_micro_batches)
        return (*actions, *(Action(WEIGHTS, index) for index in left))
