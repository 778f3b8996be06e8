"""Hosts that stand ready to replace others, and when those that failed are back."""

from __future__ import annotations

import heapq
from dataclasses import field

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.job.failures import NANOSECONDS, Lognormal


@dataclass
class HostPool:
    """``num_spares`` hosts at the begin (None: always one), and failed ones once they are repaired."""

    num_spares: int | None
    repair: Lognormal
    generator: np.random.Generator
    _ready: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._ready = [0] * (self.num_spares or 0)

    def free(self, now_ns: int) -> int | None:
        """Hosts that stand ready; None: as many as anybody asks for."""
        return None if self.num_spares is None else sum(ready <= now_ns for ready in self._ready)

    def replace(self, count: int, now_ns: int) -> int:
        """When so many hosts are there in place of as many that fail now; these are repaired for later."""
        if self.num_spares is None or not count:
            return now_ns
        for time in self.repair.lifetimes(count, self.generator):
            heapq.heappush(self._ready, now_ns + round(float(time) * NANOSECONDS))
        return max(now_ns, max(heapq.heappop(self._ready) for _ in range(count)))
