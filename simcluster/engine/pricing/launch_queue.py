"""A host that launches kernels and calls for collectives one after another, and runs ahead of the device.

Launching is asynchronous: while a long kernel works, or while kernels wait for a collective, the host
launches what follows. So kernels wait for the host only where it takes longer, over a stretch of them, than
they and what they wait for do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from simcluster.deferred_dataclass import dataclass

Nanoseconds: TypeAlias = int | NDArray[np.int64]
"""Of one device, or an array over devices; both give the same."""


@dataclass(frozen=True, slots=True)
class QueuedLaunch:
    """What the host launches: a kernel, or a collective that it calls for; times in nanoseconds."""

    duration: Nanoseconds
    """How long it takes by itself."""
    host: int
    """How long the host takes for it."""
    stream: str = ""
    """What is on one stream runs one after another."""
    after: tuple[int, ...] = ()
    """Places in the stretch of what must have ended."""
    waits: bool = True
    """Whether it starts behind its launch; what does not is never late, but takes the host time."""
    awaited: bool = False
    """Whether the host waits until it has ended before it launches anything more."""


def launch_stalls(stretch: Sequence[QueuedLaunch]) -> list[Nanoseconds]:
    """Nanoseconds for which each entry waits until the host has launched it.

    The entries are in the order of their launches. They are a stretch that is repeated many times, as a layer
    is: this is what happens in the long run. Where the stretch takes as long as the host or longer, nothing
    waits for it; elsewhere entries wait until all together take as long as it. Behind an entry that it awaits
    the host is ahead of nothing.
    """
    spent = sum(launch.host for launch in stretch)
    if spent and any(launch.awaited for launch in stretch):
        return _Played(stretch).waits(1 + len({launch.stream for launch in stretch}))
    if np.all(sum(launch.duration for launch in stretch if launch.waits) >= spent):
        return [0] * len(stretch)
    rounds = 1 + len({launch.stream for launch in stretch})
    slow = _Played(stretch).period(rounds) < spent
    if not np.any(slow):
        return [0] * len(stretch)
    return [wait * slow for wait in _Played(stretch).waits(rounds)]


class _Played:
    """A stretch as it runs time after time: when each stream is through, and the host."""

    def __init__(self, stretch: Sequence[QueuedLaunch]) -> None:
        self.stretch = stretch
        self.free: dict[str, Nanoseconds] = {}
        self.launched: Nanoseconds = 0
        # Streams begin far back in time: so nothing of the first time waits for them longer than in the end.
        work = sum(launch.duration for launch in stretch) + sum(launch.host for launch in stretch)
        self.begin: Nanoseconds = -work * (2 + len(stretch))
        self.through: Nanoseconds = 0

    def period(self, rounds: int) -> Nanoseconds:
        """How long one time takes in the end where the host takes no time."""
        before: Nanoseconds = 0
        for _ in range(rounds):
            before = self.through
            self._run(hosted=False)
        return self.through - before

    def waits(self, rounds: int) -> list[Nanoseconds]:
        """How long each entry waits for the host in the end."""
        waits: list[Nanoseconds] = []
        for _ in range(rounds):
            waits = self._run(hosted=True)
        return waits

    def _run(self, *, hosted: bool) -> list[Nanoseconds]:
        waits: list[Nanoseconds] = []
        ends: list[Nanoseconds] = []
        for launch in self.stretch:
            ready = self.free.get(launch.stream, self.begin)
            for other in launch.after:
                ready = _larger(ready, ends[other])
            self.launched += launch.host
            wait = _larger(self.launched - ready, 0) if hosted and launch.waits else 0
            waits.append(wait)
            ends.append(ready + wait + launch.duration)
            self.free[launch.stream] = ends[-1]
            if launch.waits:
                self.through = ends[-1]
            if hosted and launch.awaited:
                self.launched = _larger(self.launched, ends[-1])
        return waits


def _larger(a: Nanoseconds, b: Nanoseconds) -> Nanoseconds:
    return np.maximum(a, b) if isinstance(a, np.ndarray) or isinstance(b, np.ndarray) else max(a, b)
