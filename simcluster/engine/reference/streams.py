"""The kernel of the engine: SimPy processes for streams.

A stream is a counter of ended entries. Whoever has to wait for an entry of another stream stops at its latch
only if the counter is not there yet; most waits cost nothing, and none an entry in the queue of events.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import Any

import simpy

from simcluster.deferred_dataclass import dataclass
from simcluster.engine.reference.flows import SimEvents
from simcluster.engine.reference.meetings import Attend, Latch, Waiters, let_go
from simcluster.engine.reference.pace import Pace


@dataclass(slots=True)
class Stream:
    """One stream of one class: how far it is, who waits for it, and what it has recorded."""

    env: simpy.Environment
    """The simulation that it runs in."""
    length: int
    """How many entries it has."""
    done: int = 0
    """How many of them have ended."""
    waiters: Waiters = field(default_factory=list)
    """(Entries that must have ended, who goes on then)."""
    starts: list[int] = field(default_factory=list)
    """The start of every entry, in nanoseconds."""
    ends: list[int] = field(default_factory=list)
    """When they were over."""

    latch: Latch = field(init=False)
    """Where its own process waits."""

    def __post_init__(self) -> None:
        self.latch = Latch(self.env)

    def until(self, other: Stream, position: int) -> Latch:
        """What this stream's process waits at for the end of entry number ``position`` of another one."""
        other.waiters.append((position, self.latch))
        return self.latch


Wait = tuple[Stream | None, int]
"""The stream that an entry waits for, and how many entries of it must have ended."""

Kernels = tuple[Wait, Any]
"""An entry of a compute stream: nanoseconds, or the segment that gives way to communication; 0 or None where
it only waits.
"""

Communication = tuple[Wait, Attend | None]
"""An entry of a stream of communication, and how it is done; None where it only waits."""


def run_kernels(me: Stream, entries: Iterable[Kernels], pace: Pace | None = None) -> SimEvents:
    """The process of a compute stream; at a ``pace`` its segments give way to communication."""
    env, timeout, started, ended = me.env, me.env.timeout, me.starts.append, me.ends.append
    for entry, ((other, position), work) in enumerate(entries):
        if other is not None and other.done < position:
            yield me.until(other, position)
        now = int(env.now)
        started(now)
        if work:
            if pace is None:
                yield timeout(work)
            else:
                yield pace.start(entry, work)
                pace.stop()
            now = int(env.now)
        ended(now)
        me.done += 1
        if me.waiters:
            let_go(me.waiters, me.done)


def run_transfers(me: Stream, entries: Iterable[Communication]) -> SimEvents:
    """The process of a communication stream."""
    env, started, ended = me.env, me.starts.append, me.ends.append
    for (other, position), attend in entries:
        if other is not None and other.done < position:
            yield me.until(other, position)
        began = int(env.now) if attend is None else (yield from attend())
        started(began)
        ended(int(env.now))
        me.done += 1
        if me.waiters:
            let_go(me.waiters, me.done)
