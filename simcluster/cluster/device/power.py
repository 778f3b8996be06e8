"""The clock of a device under its power limit."""

from __future__ import annotations

from simcluster.deferred_dataclass import dataclass

CUBE = 3
"""Power beyond idle goes with clock x voltage^2, and voltage with the clock: the textbook law of CMOS."""


@dataclass(frozen=True, slots=True)
class PowerModel:
    """What a device takes, in watts: ``idle``, at its own ``limit``, and what a large matmul would take at
    its highest clock, ``demand``: more than the limit where sustained matmuls are slower than short ones.
    """

    idle: float
    limit: float
    demand: float

    def clock(self, power: float) -> float:
        """The clock that a sustained matmul holds within ``power``, as a share of the highest."""
        if power >= self.demand:
            return 1.0
        return float(max(0.0, (power - self.idle) / (self.demand - self.idle)) ** (1 / CUBE))

    def speed(self, cap: float) -> float:
        """The factor on what it computes per second that a cap leaves of the device at its own limit."""
        return self.clock(cap) / self.clock(self.limit)

    @classmethod
    def of(cls, idle: float, limit: float, burst: float) -> PowerModel:
        """The model of a device whose short matmuls are ``burst`` times as fast as sustained ones."""
        return cls(idle, limit, idle + (limit - idle) * burst**CUBE)
