"""What an operator costs on a device, in integer nanoseconds."""

from __future__ import annotations

from dataclasses import dataclass


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
