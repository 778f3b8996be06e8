"""Offload rules: which values of which categories are stored where, and how they are copied."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from typing import Any

from simcluster.cluster import Cluster
from simcluster.deferred_dataclass import dataclass
from simcluster.document import matches
from simcluster.errors import PlanError, Problem
from simcluster.model import MemoryPlace

OFFLOAD_PATH = "parallel.offload"

CATEGORIES = ("parameters", "gradients", "optimizer_states", "activations")
"""Categories that can be offloaded, by their names in memory reports."""

PAGEABLE = 0.5
"""Share of the PCIe rate for copies from memory that is not pinned (hardware.md: about half)."""


@dataclass(frozen=True, slots=True)
class CopyRates:
    """Rates of the copies between device, host and disks."""

    pinned: bool = True
    """Host memory is pinned."""
    disk: float = math.inf
    """Bytes/s at most that a device gets of the disks."""
    bus: float = math.inf
    """Bytes/s at most over PCIe, once the hosts are known."""

    def on(self, cluster: Cluster) -> CopyRates:
        """The rates on the hosts of a cluster: those of the slowest kind."""
        if self.pinned:
            return self
        rates = [host.pcie.rate for host in cluster.kinds if host.pcie is not None]
        return replace(self, bus=PAGEABLE * min(rates, default=math.inf))


@dataclass(frozen=True, slots=True)
class OffloadRule:
    """Where values of one category are stored."""

    place: MemoryPlace
    """Host memory or disks."""
    match: tuple[str, ...] = ("*",)
    """Patterns of full names; only values that match one."""
    fraction: float = 1.0
    """The share of the bytes of every stage, the first ones in program order."""
    rates: CopyRates = CopyRates()
    """Rates of the copies."""
    ahead: int = 1
    """Kernels, or blocks, ahead of their use at which copies start."""

    def fits(self, name: str) -> bool:
        """Whether a full name matches one of the patterns."""
        return any(matches(pattern, name) for pattern in self.match)


@dataclass(frozen=True, slots=True)
class OffloadPlan:
    """What is offloaded, and how much memory it may take."""

    rules: Mapping[str, OffloadRule] = field(default_factory=dict)
    """Category -> rule."""
    host_limit: int | None = None
    """Bytes of host memory for each device; None: no limit but the memory."""
    disk_limit: int | None = None
    """Bytes of disks for each device; None: no limit but the disks."""
    host_block: int = 1
    """Host memory is allocated in blocks of so many bytes; 0: to the byte."""

    def remarks(self, terms: int) -> Iterator[str]:
        """Notes on what the timing leaves out, in a step whose gradients have so many terms."""
        if "gradients" in self.rules and terms > 1:
            yield (
                "gradients are added up on the host: what that takes of its processors is not in the times, "
                "as no figures for it are known"
            )

    def document(self) -> dict[str, dict[str, Any]]:
        """What is offloaded, as JSON-able data."""
        return {
            name: {
                "to": str(rule.place),
                "match": list(rule.match),
                "fraction": rule.fraction,
                "prefetch": rule.ahead,
                "pinned": rule.rates.pinned,
            }
            for name, rule in self.rules.items()
        }

    def on(self, cluster: Cluster) -> OffloadPlan:
        """The plan on the hosts of a cluster; PlanError if they have no such memory or disks."""
        problems = list(_problems(self, cluster))
        if problems:
            raise PlanError(*problems)
        rules = {name: replace(rule, rates=rule.rates.on(cluster)) for name, rule in self.rules.items()}
        return replace(self, rules=rules)


def _problems(plan: OffloadPlan, cluster: Cluster) -> Iterator[Problem]:
    for category, rule in plan.rules.items():
        path = f"{OFFLOAD_PATH}.{category}"
        for host in cluster.kinds:
            if host.pcie is None:
                message = f"host '{host.name}' has no memory besides that of its devices"
                yield Problem(message, path, "leave the section out")
            elif rule.place is MemoryPlace.DISK and not (host.disk_read and host.disk_write):
                message = f"host '{host.name}' does not say how fast its disks are (disks.read, disks.write)"
                yield Problem(message, path, "write to: host")
