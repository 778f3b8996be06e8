"""The kernel of the engine: SimPy processes for streams.

A stream is a counter of ended entries. Whoever has to wait for an entry of another stream stops at its latch
only if the counter is not there yet; most waits cost nothing, and none an entry in the queue of events.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Any

import simpy

from simcluster.deferred_dataclass import dataclass
from simcluster.engine.reference.flows import SimEvents
from simcluster.engine.reference.meetings import Attend, Latch, Waiters, wake
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


Waits = Sequence[tuple[Stream, int]]
"""What an entry waits for: other streams, and how many entries of each must have ended."""


def run_kernels(me: Stream, entries: Iterable[tuple[Waits, Any]], pace: Pace | None = None) -> SimEvents:
    """The process of a compute stream, whose entries take nanoseconds; at a ``pace`` they are segments, which
    give way to communication.
    """
    env, timeout, started, ended = me.env, me.env.timeout, me.starts.append, me.ends.append
    for entry, (waits, work) in enumerate(entries):
        for other, position in waits:
            if other.done < position:
                yield me.until(other, position)
        started(int(env.now))
        if pace is None:
            yield timeout(work)
        else:
            yield pace.start(entry, work)
            pace.stop()
        ended(int(env.now))
        me.done += 1
        if me.waiters:
            wake(me.waiters, me.done)


def run_transfers(me: Stream, entries: Iterable[tuple[Waits, Attend]]) -> SimEvents:
    """The process of a communication stream."""
    env, started, ended = me.env, me.starts.append, me.ends.append
    for waits, attend in entries:
        for other, position in waits:
            if other.done < position:
                yield me.until(other, position)
        started((yield from attend()))
        ended(int(env.now))
        me.done += 1
        if me.waiters:
            wake(me.waiters, me.done)
