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
        return _played(stretch, hosted=True)[0]
    if np.all(sum(launch.duration for launch in stretch if launch.waits) >= spent):
        return [0] * len(stretch)
    slow = _played(stretch, hosted=False)[1] < spent
    if not np.any(slow):
        return [0] * len(stretch)
    return [wait * slow for wait in _played(stretch, hosted=True)[0]]


def _played(stretch: Sequence[QueuedLaunch], *, hosted: bool) -> tuple[list[Nanoseconds], Nanoseconds]:
    """How long each entry waits for the host in the end, and how long the stretch takes then; the host takes
    no time if it is not ``hosted``.
    """
    # Streams begin far back in time: so nothing of the first time waits for them longer than in the end.
    work = sum(launch.duration for launch in stretch) + sum(launch.host for launch in stretch)
    begin: Nanoseconds = -work * (2 + len(stretch))
    free: dict[str, Nanoseconds] = {}
    launched: Nanoseconds = 0
    through: Nanoseconds = 0
    before: Nanoseconds = 0
    waits: list[Nanoseconds] = []
    ends: list[Nanoseconds] = []
    for _ in range(1 + len({launch.stream for launch in stretch})):
        before, waits, ends = through, [], []
        for launch in stretch:
            ready = free.get(launch.stream, begin)
            for other in launch.after:
                ready = _larger(ready, ends[other])
            launched += launch.host
            wait = _larger(launched - ready, 0) if hosted and launch.waits else 0
            waits.append(wait)
            ends.append(ready + wait + launch.duration)
            free[launch.stream] = ends[-1]
            if launch.waits:
                through = ends[-1]
            if hosted and launch.awaited:
                launched = _larger(launched, ends[-1])
    return waits, through - before


def _larger(a: Nanoseconds, b: Nanoseconds) -> Nanoseconds:
    return np.maximum(a, b) if isinstance(a, np.ndarray) or isinstance(b, np.ndarray) else max(a, b)
