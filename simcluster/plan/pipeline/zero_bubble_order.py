"""The order of 1F1B with split backwards whose weight gradients are delayed (zero bubble)."""

from __future__ import annotations

from fractions import Fraction

from simcluster.plan.pipeline.action import FORWARD, INPUTS, WEIGHTS, Action


def zero_bubble_actions(
    num_micro_batches: int, warmup: int, late: int, limit: int, kept: float | None
) -> tuple[Action, ...]:
    """Warm-up forwards, then forward and input gradient alternately, each followed by a weight gradient.

    That is of ``late`` micro-batches before. What is left of both comes last. With ``kept``, weight gradients
    wait as long as activations of ``limit`` forwards leave room.
    """
    if kept is not None:
        return _within_memory(num_micro_batches, warmup, late, limit, kept)
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


def _within_memory(
    num_micro_batches: int, warmup: int, late: int, limit: int, kept: float
) -> tuple[Action, ...]:
    """The order where an input gradient releases all of a forward's activations but the share ``kept``, and
    its weight gradient that: no sooner than it must, but for ``late`` at most that are left at the end.
    """
    share = Fraction(kept).limit_denominator(1000)
    warmup = min(warmup, num_micro_batches)
    actions = [Action(FORWARD, index) for index in range(warmup)]
    done = 0
    for index in range(num_micro_batches):
        forwards = min(warmup + index + 1, num_micro_batches)
        actions += [Action(FORWARD, number) for number in range(warmup + index, forwards)]
        actions.append(Action(INPUTS, index))
        ready, most = index + 1, late + num_micro_batches - 1 - index
        more = forwards < num_micro_batches
        while done < ready and (
            ready - done > most or (more and forwards - ready + (ready - done) * share + 1 > limit)
        ):
            actions.append(Action(WEIGHTS, done))
            done += 1
    return (*actions, *(Action(WEIGHTS, index) for index in range(done, num_micro_batches)))
