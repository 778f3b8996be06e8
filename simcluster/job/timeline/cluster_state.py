"""The state of a cluster as far as steps depend on it, and what a step is in it."""

from __future__ import annotations

from simcluster.deferred_dataclass import dataclass


@dataclass(frozen=True, slots=True, order=True)
class SlowDevice:
    """A device that does ``factor`` of its usual work per second."""

    device: int
    factor: float


@dataclass(frozen=True, slots=True)
class ClusterState:
    """What differs from the cluster as it is described: slow devices, and data replicas left out."""

    slow: tuple[SlowDevice, ...] = ()
    lost_replicas: int = 0
    workers: tuple[int, ...] = ()
    """Of workers of parameter servers, whose plan stays as it is, which these are, by rank."""
    servers: tuple[int, ...] = ()
    """Devices of parameter servers that hold no keys."""


NOMINAL_STATE = ClusterState()


@dataclass(frozen=True, slots=True)
class StepSummary:
    """A step: how long it takes, and how many samples it trains on."""

    step_ns: int
    samples: int
