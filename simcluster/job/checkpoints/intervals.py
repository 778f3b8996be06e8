"""How often to save: Young's and Daly's formulas, and what a fixed interval costs on the average.

J. W. Young, CACM 17(9), 1974; J. T. Daly, FGCS 22(3), 2006. Times between failures are distributed
exponentially, ``mtbf`` on the average; ``save`` is what one checkpoint holds training up, ``restart`` what a
failure costs until training goes on. Where a checkpoint is written beside training, it is complete
``background`` after its save, and the next save waits for it. All in seconds.
"""

from __future__ import annotations

import math


def young_interval(save: float, mtbf: float) -> float:
    """Young's interval of work between checkpoints: ``sqrt(2 C M)``."""
    return math.sqrt(2 * save * mtbf)


def daly_interval(save: float, mtbf: float) -> float:
    """Daly's interval of work between checkpoints, of higher order; ``mtbf`` if a save takes twice that."""
    if save >= 2 * mtbf:
        return mtbf
    ratio = save / (2 * mtbf)
    return math.sqrt(2 * save * mtbf) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - save


def expected_wall_time(
    interval: float, save: float, restart: float, mtbf: float, background: float = 0.0
) -> float:
    """Daly's expected seconds per second of work: ``M e^(R/M) (e^((t + C)/M) - 1) / t``.

    Failures may come in restarts too. With a ``background`` P, a failure loses up to ``t + P``: the k-th
    checkpoint since a restart is complete ``k (t + C) + P`` after it, so R is longer by P. Where P is longer
    than t, a save waits P - t for the one before, and R is longer by t. Infinite where no float holds it.
    """
    lost, waits = min(interval, background), max(0.0, background - interval)
    try:
        cycle = math.expm1((interval + save + waits) / mtbf)
        return mtbf * math.exp((restart + lost) / mtbf) * cycle / interval
    except OverflowError:
        return math.inf


def expected_waste(
    interval: float, save: float, restart: float, mtbf: float, background: float = 0.0
) -> float:
    """The part of the time that is no progress: 1 less the work done per second of ``expected_wall_time``."""
    return 1 - 1 / expected_wall_time(interval, save, restart, mtbf, background)


def best_interval(save: float, mtbf: float, background: float = 0.0) -> float:
    """The interval at which ``expected_wall_time`` is least, found numerically; restarts do not change it.

    It solves ``1 - t/M = e^(-(t + C)/M)`` by bisection. An interval shorter than ``background``, or than M if
    that is shorter, helps nothing: saves would only wait.
    """
    low, high = 0.0, mtbf
    for _ in range(200):
        middle = (low + high) / 2
        above = 1 - middle / mtbf > math.exp(-(middle + save) / mtbf)
        low, high = (middle, high) if above else (low, middle)
    return max((low + high) / 2, min(background, mtbf))
