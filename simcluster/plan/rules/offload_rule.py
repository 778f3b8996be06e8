"""What a plan offloads: which values of which categories, to where, and how they are copied."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from simcluster.cluster import Cluster
from simcluster.document import matches
from simcluster.errors import PlanError, Problem
from simcluster.model import MemoryPlace

OFFLOAD_PATH = "parallel.offload"

CATEGORIES = ("parameters", "gradients", "optimizer_states", "activations")
"""What can be offloaded, as the account of memory calls it."""

PAGEABLE = 0.5
"""The share of the bus that copies reach from memory that is not pinned (hardware.md: about half)."""


@dataclass(frozen=True, slots=True)
class CopyRates:
    """How copies go: from ``pinned`` memory or not, and at most ``disk`` bytes/s of the disks.

    ``bus`` are the bytes/s that they ask for of the way to the device, once the hosts are known.
    """

    pinned: bool = True
    disk: float = math.inf
    bus: float = math.inf

    def on(self, cluster: Cluster) -> CopyRates:
        """The same for the hosts of a cluster: of several kinds, as the slowest does it."""
        if self.pinned:
            return self
        rates = [host.pcie.rate for host in cluster.kinds if host.pcie is not None]
        return replace(self, bus=PAGEABLE * min(rates, default=math.inf))


@dataclass(frozen=True, slots=True)
class OffloadRule:
    """What becomes of one category of values.

    Those whose names fit one of the patterns ``match``, and of these the ``fraction`` of the bytes of every
    stage that is first in program order, lie at ``place``. Copies begin ``ahead`` users before they are
    needed.
    """

    place: MemoryPlace
    match: tuple[str, ...] = ("*",)
    fraction: float = 1.0
    rates: CopyRates = CopyRates()
    ahead: int = 1

    def fits(self, name: str) -> bool:
        """Whether a full name fits one of the patterns."""
        return any(matches(pattern, name) for pattern in self.match)


@dataclass(frozen=True, slots=True)
class OffloadPlan:
    """What is offloaded: ``rules`` by category.

    Each device may take ``host_limit`` bytes of its host's memory, in blocks of ``host_block``, and
    ``disk_limit`` of the disks; None: what there is.
    """

    rules: Mapping[str, OffloadRule] = field(default_factory=dict)
    host_limit: int | None = None
    disk_limit: int | None = None
    host_block: int = 1

    def remarks(self, terms: int) -> Iterator[str]:
        """What the times of a step leave out in which every gradient is the sum of so many."""
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
        """The same for the hosts of a cluster; PlanError if they lack what is to be offloaded to."""
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
                told = f"host '{host.name}' has no memory besides that of its devices"
                yield Problem(told, path, "leave the section out")
            elif rule.place is MemoryPlace.DISK and not (host.disk_read and host.disk_write):
                told = f"host '{host.name}' does not say how fast its disks are (disks.read, disks.write)"
                yield Problem(told, path, "write to: host")
