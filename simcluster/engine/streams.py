"""The kernel of the engine: SimPy processes for streams, and the meetings where classes wait for each other.

A stream is a counter of ended entries. Whoever has to wait for an entry of another stream gets an event only
if the counter is not there yet; most waits cost nothing.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

import simpy

SimEvents = Generator[simpy.Event, None, None]


@dataclass(slots=True)
class Stream:
    """One stream of one class: how far it is, who waits for it, and what it has recorded.

    ``starts`` holds the start of every entry, ``arrivals`` when a communication entry was ready to start.
    """

    name: str
    env: simpy.Environment
    length: int
    done: int = 0
    waiters: list[tuple[int, simpy.Event]] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    arrivals: list[int] = field(default_factory=list)

    def reached(self, position: int) -> simpy.Event:
        """An event for the end of entry number ``position``."""
        event = simpy.Event(self.env)
        self.waiters.append((position, event))
        return event

    def wake(self) -> None:
        """Lets those go on who waited for an entry that is over now."""
        left = []
        for waiter in self.waiters:
            if waiter[0] <= self.done:
                waiter[1].succeed()
            else:
                left.append(waiter)
        self.waiters = left


@dataclass(slots=True)
class Meeting:
    """A collective or transfer: it starts when the last of ``size`` classes has arrived and ends for all."""

    size: int
    arrived: int = 0
    over: simpy.Event | None = None

    def join(self, env: simpy.Environment, duration: int) -> SimEvents:
        """Arrives and waits for the end."""
        self.arrived += 1
        if self.arrived < self.size:
            if self.over is None:
                self.over = simpy.Event(env)
            yield self.over
            return
        yield env.timeout(duration)
        if self.over is not None:
            self.over.succeed()


@dataclass(frozen=True, slots=True)
class Entries:
    """What a stream does: per entry what to wait for (stream, position), a duration, a meeting or None."""

    waits: Sequence[Stream | None]
    positions: Sequence[int]
    durations: Sequence[int]
    meetings: Sequence[Meeting | None]


def run_kernels(me: Stream, entries: Entries) -> SimEvents:
    """The process of a compute stream."""
    env, timeout, starts = me.env, me.env.timeout, me.starts
    columns = zip(entries.waits, entries.positions, entries.durations, strict=True)
    for other, position, duration in columns:
        if other is not None and other.done < position:
            yield other.reached(position)
        starts.append(int(env.now))
        if duration:
            yield timeout(duration)
        me.done += 1
        if me.waiters:
            me.wake()


def run_transfers(me: Stream, entries: Entries) -> SimEvents:
    """The process of a communication stream."""
    env, timeout, starts, arrivals = me.env, me.env.timeout, me.starts, me.arrivals
    columns = zip(entries.waits, entries.positions, entries.durations, entries.meetings, strict=True)
    for other, position, duration, meeting in columns:
        if other is not None and other.done < position:
            yield other.reached(position)
        arrivals.append(int(env.now))
        if meeting is not None:
            yield from meeting.join(env, duration)
        elif duration:
            yield timeout(duration)
        starts.append(int(env.now) - duration)
        me.done += 1
        if me.waiters:
            me.wake()
