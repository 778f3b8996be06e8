"""Hosts whose processors work: figures that are easy to reckon with."""

from __future__ import annotations

from typing import Any

THREADS = 4
"""Threads of an operator on a host."""


def figure(value: Any) -> dict[str, Any]:
    """A figure of a file of the catalog."""
    return {"value": value, "source": "a test", "provenance": "assumed"}


def host(
    devices: int, cores: int = 64, memory: str = "1000 GB/s", use: str = "dgx-a100", **kernels: Any
) -> dict[str, Any]:
    """Devices around one socket with one memory."""
    known = {
        "gather_scatter": figure({"row": "100 ns", "bandwidth": "1 GB/s"}),
        "optimizer": figure({"row": "1 us", "bandwidth": "0.5 GB/s"}),
        "elementwise": figure({"row": "0 ns", "bandwidth": "1 GB/s"}),
        **kernels,
    }
    return {
        "use": use,
        "devices": devices,
        "network": {"nics": devices},
        "processors": {
            "sockets": 1,
            "numa_nodes": 1,
            "numa_of_device": [0] * devices,
            "cores": cores,
            "threads": figure(THREADS),
            "memory_bandwidth": memory,
            "kernels": known,
        },
    }
