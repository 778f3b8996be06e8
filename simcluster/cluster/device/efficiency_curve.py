"""Efficiency as a function of size: a few points, interpolated on the logarithm of the size."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise


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
