"""Who runs on a cluster, and how far the run is."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from simcluster.cluster import DEVICES_OWN, Cluster, DispatchTime
from simcluster.collectives import AUTOMATIC, Selection
from simcluster.engine.choices import Choices
from simcluster.engine.fabric import Fabric
from simcluster.engine.prices import Prices
from simcluster.program import (
    FREE_CALLS,
    CollectiveCalls,
    CollectiveRequests,
    HostCalls,
    Program,
    RankClasses,
)


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """One of several Programs that run at once on one cluster; what its parts are, ``run`` says."""

    program: Program
    """What its ranks run."""
    cluster: Cluster
    """The part of the cluster that they are."""
    classes: RankClasses
    """Which of them behave alike."""
    steps: int = 1
    """How often the Program is run."""
    dispatch: DispatchTime = DEVICES_OWN
    """Host time per operator."""
    algorithms: Selection = AUTOMATIC
    """The algorithms that collectives use."""
    fabric: Fabric | None = None
    """The links that it shares with others; None: it has links to itself."""
    host: HostCalls = FREE_CALLS
    """What the host spends on calling for collectives."""

    def prices(self) -> Prices:
        """What its instructions cost."""
        choices = Choices(self.classes, self.cluster, CollectiveRequests(self.program, self.algorithms))
        calls = CollectiveCalls.of(self.program, self.host)
        return Prices(self.program, choices, calls, self.dispatch, self.fabric)


class Progress:
    """How far a running engine is, for whoever watches from another thread."""

    def __init__(self, total: int = 0) -> None:
        self.total = total
        self._reached = 0, 0
        self._look: Callable[[], tuple[int, int]] | None = None

    def update(self, done: int, time: int) -> None:
        """Takes in how many entries have ended, and a time (ns) that has been reached."""
        self._reached = done, max(time, self._reached[1])

    def follow(self, look: Callable[[], tuple[int, int]]) -> None:
        """Asks for both from now on."""
        self._look = look

    @property
    def now(self) -> float:
        """Simulated seconds."""
        return float((self._look() if self._look else self._reached)[1]) * 1e-9

    @property
    def done(self) -> int:
        """Entries that have ended."""
        return (self._look() if self._look else self._reached)[0]


@contextmanager
def no_collection() -> Iterator[None]:
    """Keeps the cyclic garbage collector still: events and instructions are many and hold no cycles worth
    looking for.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
