"""The least value of a function of a few figures above zero, found step by step, without derivatives."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

MOST_ROUNDS = 60
SMALLEST_STEP = 0.004
"""Steps are of logarithms: the search ends when all are below 0.4 %."""


def minimise(
    cost: Callable[[Sequence[float]], float],
    start: Sequence[float],
    steps: Sequence[float],
    bounds: Sequence[tuple[float, float]],
) -> list[float]:
    """Figures within ``bounds`` at which no single one can be moved for a lower cost.

    Every figure is tried a step up and a step down, in order; where neither helps, its step is halved.
    """
    best = [min(max(value, low), high) for value, (low, high) in zip(start, bounds, strict=True)]
    sizes = list(steps)
    least = cost(best)
    for _ in range(MOST_ROUNDS):
        for place, (low, high) in enumerate(bounds):
            for sign in (1, -1):
                tried = list(best)
                tried[place] = min(max(best[place] * math.exp(sign * sizes[place]), low), high)
                reached = cost(tried)
                if reached < least - 1e-9:
                    best, least = tried, reached
                    break
            else:
                sizes[place] /= 2
        if max(sizes, default=0.0) < SMALLEST_STEP:
            break
    return best
