"""How fast a device is, relative to the others of its kind."""

from __future__ import annotations

from dataclasses import dataclass

SLOWEST, FASTEST = 1e-3, 1e3
"""Bounds of a factor: beyond them is a slip of the pen, not a device."""


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
