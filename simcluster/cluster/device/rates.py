"""Rates and times of devices: figures per device or of many at once, speeds, efficiency curves, prices."""

from __future__ import annotations

import math
from bisect import bisect_right
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from simcluster.deferred_dataclass import dataclass

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


SLOWEST, FASTEST = 1e-3, 1e3
"""Bounds of a factor: a factor beyond them is taken for a mistake."""


@dataclass(frozen=True, slots=True)
class DeviceSpeed:
    """Factors on rates: ``compute`` of the matrix and vector units, ``memory_bandwidth`` of the memory.

    1 is the device as its file has it, 0.9 one that computes nine tenths as much per second.
    """

    compute: float = 1.0
    memory_bandwidth: float = 1.0

    def __str__(self) -> str:
        factors = {"compute": self.compute, "memory bandwidth": self.memory_bandwidth}
        return ", ".join(f"{name} x {factor:.4g}" for name, factor in factors.items() if factor != 1)


NOMINAL = DeviceSpeed()
"""A device as its file has it."""


@dataclass(frozen=True, slots=True)
class EfficiencyCurve:
    """Points (size, value), sizes rising; between two points linear in log(size), flat outside them."""

    points: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        sizes = [size for size, _ in self.points]
        if not sizes or sizes[0] <= 0 or any(b <= a for a, b in pairwise(sizes)):
            raise ValueError("a curve needs points of positive, rising sizes")

    def at(self, size: float) -> float:
        """The value at ``size``, which must be positive."""
        points = self.points
        right = bisect_right(points, size, key=lambda point: point[0])
        if right == 0:
            return points[0][1]
        if right == len(points):
            return points[-1][1]
        (low, below), (high, above) = points[right - 1], points[right]
        share = math.log(size / low) / math.log(high / low)
        return below + share * (above - below)


def nanoseconds(seconds: float) -> int:
    """Seconds as whole nanoseconds, rounded half to even: the one place where time becomes an integer."""
    return round(seconds * 1e9)


@dataclass(frozen=True, slots=True)
class Price:
    """The time of one operator: ``busy_ns`` its kernels work, ``host_ns`` the device waits for launches.

    The second part is what launching and the host's dispatch cost on top: nothing that a faster device
    would shorten. ``memory_ns``: the part of ``busy_ns`` in which kernels wait for memory.
    """

    busy_ns: int
    host_ns: int
    memory_ns: int = 0

    @property
    def total_ns(self) -> int:
        """Nanoseconds from the operator's start to its end; at least 1."""
        return self.busy_ns + self.host_ns
