"""The order of 1F1B with split backwards whose weight gradients are delayed (zero bubble)."""

from __future__ import annotations

from simcluster.plan.pipeline.action import FORWARD, INPUTS, WEIGHTS, Action


def zero_bubble_actions(num_micro_batches: int, warmup: int, late: int) -> tuple[Action, ...]:
    """Warm-up forwards, then forward and input gradient alternately, each followed by a weight gradient.

    That is of ``late`` micro-batches before. What is left of both comes last.
    """
    warmup = min(warmup, num_micro_batches)
    actions = [Action(FORWARD, index) for index in range(warmup)]
    for index in range(num_micro_batches):
        if warmup + index < num_micro_batches:
            actions.append(Action(FORWARD, warmup + index))
        actions.append(Action(INPUTS, index))
        if index >= late:
            actions.append(Action(WEIGHTS, index - late))
    left = range(max(0, num_micro_batches - late), num_micro_batches)
    return (*actions, *(Action(WEIGHTS, index) for index in left))
