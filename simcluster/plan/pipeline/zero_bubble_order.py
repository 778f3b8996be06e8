"""The order of 1F1B with backwards in halves, of which those of the weights come late."""

from __future__ import annotations

from simcluster.plan.pipeline.action import FORWARD, INPUTS, WEIGHTS, Action


def zero_bubble_actions(num_micro_batches: int, warmup: int, late: int) -> tuple[Action, ...]:
    """Warm-up forwards, then forward and input gradient in turns, and with each of these the weight gradient
    of ``late`` micro-batches before; what is left of both behind.
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
