"""Checkpoints and failures in closed form (Young, CACM 17(9), 1974; Daly, FGCS 22(3), 2006).

``mtbf`` is the mean time between failures of the job, ``save`` what a checkpoint blocks, ``restart`` the time
from a failure to the next step, ``interval`` the useful work between checkpoints; all in seconds.
"""

from __future__ import annotations

import math


def young_interval(mtbf: float, save: float) -> float:
    """The best interval to first order."""
    return math.sqrt(2 * save * mtbf)


def daly_interval(mtbf: float, save: float) -> float:
    """The best interval to higher order."""
    if save >= 2 * mtbf:
        return mtbf
    ratio = save / (2 * mtbf)
    return math.sqrt(2 * save * mtbf) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - save


def daly_goodput(mtbf: float, save: float, restart: float, interval: float) -> float:
    """Useful work over wall time: exponential failures that may also come during a restart."""
    exponent = (
        restart / mtbf + math.log(math.expm1((interval + save) / mtbf)) if interval + save < mtbf else None
    )
    if exponent is None:
        exponent = (restart + interval + save) / mtbf + math.log1p(-math.exp(-(interval + save) / mtbf))
    return interval / mtbf * math.exp(-exponent)
