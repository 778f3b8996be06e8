"""The order of interleaved schedules: micro-batches in rounds, each through all chunks of a stage."""

from __future__ import annotations

from collections.abc import Sequence

from simcluster.plan.schedule import BACKWARD, FORWARD, Action


def interleaved(rounds: Sequence[int], chunks: int, warmup: int) -> tuple[Action, ...]:
    """The actions of a stage: ``warmup`` forwards, then one forward one backward, then the backwards left.

    ``rounds`` are numbers of micro-batches. In each round all its micro-batches go through the first chunk,
    then all through the next; their backwards in the same order, with the last chunk first.
    """
    forwards: list[Action] = []
    backwards: list[Action] = []
    first = 0
    for count in rounds:
        for chunk in range(chunks):
            forwards += [Action(FORWARD, first + index, chunk) for index in range(count)]
            backwards += [Action(BACKWARD, first + index, chunks - 1 - chunk) for index in range(count)]
        first += count
    warmup = min(warmup, len(forwards))
    actions = forwards[:warmup]
    for forward, backward in zip(forwards[warmup:], backwards, strict=False):
        actions += [forward, backward]
    return (*actions, *backwards[len(forwards) - warmup :])
