"""Rates and times of one device as floats, or of many as arrays."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Rate: TypeAlias = float | NDArray[np.float64]
"""A float, or an array over devices. A formula gives the same bits for a device alone and among others."""


def larger(a: Rate, b: Rate) -> Rate:
    """The larger one, of each device."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.maximum(a, b)
    return max(a, b)


def smaller(a: Rate, b: Rate) -> Rate:
    """The smaller one, of each device."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.minimum(a, b)
    return min(a, b)
