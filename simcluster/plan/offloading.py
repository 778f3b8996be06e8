"""What a plan offloads: which values of which categories, to where, and how they are copied."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from simcluster.cluster import Cluster
from simcluster.document.pattern import matches
from simcluster.errors import PlanError, Problem
from simcluster.model import Place


@dataclass(frozen=True, slots=True)
class Offloading:
    """What becomes of one category of values.

    Those whose names fit one of the patterns ``match``, and of these the ``fraction`` of the bytes of every
    stage that is first in program order, lie at ``place``. Copies ask for at most ``bus`` bytes/s of the way
    to the device and ``disk`` of the disks, and begin ``ahead`` users before they are needed.
    """

    place: Place
    match: tuple[str, ...] = ("*",)
    fraction: float = 1.0
    bus: float = math.inf
    disk: float = math.inf
    ahead: int = 1

    def fits(self, name: str) -> bool:
        """Whether a full name fits one of the patterns."""
        return any(matches(pattern, name) for pattern in self.match)


@dataclass(frozen=True, slots=True)
class Offload:
    """What is offloaded, by category; None: nothing."""

    parameters: Offloading | None = None
    gradients: Offloading | None = None
    states: Offloading | None = None
    activations: Offloading | None = None

    @property
    def categories(self) -> Iterator[tuple[str, Offloading]]:
        """What is offloaded, by the name of its category."""
        if self.parameters is not None:
            yield "parameters", self.parameters
        if self.gradients is not None:
            yield "gradients", self.gradients
        if self.states is not None:
            yield "optimizer_states", self.states
        if self.activations is not None:
            yield "activations", self.activations


PATH = "parallel.offload"


def check_places(plan: Offload, cluster: Cluster) -> None:
    """PlanError if the hosts lack what is to be offloaded to."""
    problems = []
    for category, rule in plan.categories:
        path = f"{PATH}.{category}"
        for host in cluster.kinds:
            if host.pcie is None:
                problems.append(
                    Problem(
                        f"host '{host.name}' has no memory besides that of its devices",
                        path,
                        "leave the section out",
                    )
                )
            elif rule.place is Place.DISK and not (host.disk_read and host.disk_write):
                problems.append(
                    Problem(
                        f"host '{host.name}' does not say how fast its disks are (disks.read, disks.write)",
                        path,
                        "write to: host",
                    )
                )
    if problems:
        raise PlanError(*problems)
