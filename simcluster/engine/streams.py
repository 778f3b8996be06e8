"""The kernel of the engine: SimPy processes for streams, and the meetings where classes wait for each other.

A stream is a counter of ended entries. Whoever has to wait for an entry of another stream gets an event only
if the counter is not there yet; most waits cost nothing.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field

import simpy

from simcluster.cluster.communication import Taken
from simcluster.engine.fabric import Transfer
from simcluster.engine.flows import Network
from simcluster.engine.pace import Pace, Segment

SimEvents = Generator[simpy.Event, None, None]

Moves = int | Transfer
"""What a communication entry takes: nanoseconds, or bytes over shared links."""


@dataclass(slots=True)
class Stream:
    """One stream of one class: how far it is, who waits for it, and what it has recorded.

    ``starts`` holds the start of every entry; of communication entries ``arrivals`` holds when they were
    ready to start, and ``ends`` when they were over.
    """

    name: str
    env: simpy.Environment
    length: int
    done: int = 0
    waiters: list[tuple[int, simpy.Event]] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    arrivals: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)

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
    """A collective or transfer: it starts when the last of ``size`` classes has arrived and ends for all.

    ``began`` is the time (ns) at which the last one arrived; ``held`` is what it takes of whose device.
    """

    size: int
    arrived: int = 0
    began: int = 0
    over: simpy.Event | None = None
    held: list[tuple[Pace, Taken]] | None = None

    def join(
        self, env: simpy.Environment, network: Network, moves: Moves, taken: tuple[Pace, Taken] | None = None
    ) -> SimEvents:
        """Arrives and waits for the end; the last to arrive sees to the bytes."""
        self.arrived += 1
        if taken is not None:
            if self.held is None:
                self.held = [taken]
            else:
                self.held.append(taken)
        if self.arrived < self.size:
            if self.over is None:
                self.over = simpy.Event(env)
            yield self.over
            return
        self.began = int(env.now)
        held = self.held or ()
        for pace, each in held:
            pace.begin(each)
        if isinstance(moves, int):
            yield env.timeout(moves)
        else:
            yield from network.carry(moves)
        for pace, each in held:
            pace.finish(each)
        if self.over is not None:
            self.over.succeed()


@dataclass(frozen=True, slots=True)
class Kernels:
    """What a stream does: per entry what to wait for (stream, position), and a duration (ns)."""

    waits: Iterable[Stream | None]
    positions: Iterable[int]
    durations: Iterable[int]


@dataclass(frozen=True, slots=True)
class Communications:
    """What a communication stream does: per entry what to wait for, what it moves, a meeting or None."""

    waits: Iterable[Stream | None]
    positions: Iterable[int]
    moves: Iterable[Moves]
    meetings: Iterable[Meeting | None]
    takes: Sequence[Taken | None] | None = None
    """What every entry takes of the device; None: nothing at all."""


def run_kernels(me: Stream, entries: Kernels) -> SimEvents:
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


def run_beside(
    me: Stream, entries: Kernels, segments: Iterable[Segment | None], pace: Pace, first: int = 0
) -> SimEvents:
    """The process of a compute stream whose kernels give way to communication, from entry ``first`` on."""
    env, starts = me.env, me.starts
    columns = zip(entries.waits, entries.positions, segments, strict=True)
    for entry, (other, position, segment) in enumerate(columns, first):
        if other is not None and other.done < position:
            yield other.reached(position)
        starts.append(int(env.now))
        if segment is not None:
            yield pace.start(entry, segment)
            pace.stop()
        me.done += 1
        if me.waiters:
            me.wake()


def run_transfers(
    me: Stream, entries: Communications, network: Network, pace: Pace | None = None
) -> SimEvents:
    """The process of a communication stream; what it takes slows the kernels at ``pace``."""
    if pace is not None and entries.takes is not None:
        yield from _run_taking(me, entries, entries.takes, network, pace)
        return
    env, timeout = me.env, me.env.timeout
    starts, arrivals, ends = me.starts, me.arrivals, me.ends
    columns = zip(entries.waits, entries.positions, entries.moves, entries.meetings, strict=True)
    for other, position, moves, meeting in columns:
        if other is not None and other.done < position:
            yield other.reached(position)
        began = int(env.now)
        arrivals.append(began)
        if meeting is not None:
            yield from meeting.join(env, network, moves)
            began = meeting.began
        elif not isinstance(moves, int):
            yield from network.carry(moves)
        elif moves:
            yield timeout(moves)
        starts.append(began)
        ends.append(int(env.now))
        me.done += 1
        if me.waiters:
            me.wake()


def _run_taking(
    me: Stream, entries: Communications, takes: Sequence[Taken | None], network: Network, pace: Pace
) -> SimEvents:
    env = me.env
    columns = zip(entries.waits, entries.positions, entries.moves, entries.meetings, takes, strict=True)
    for other, position, moves, meeting, taken in columns:
        if other is not None and other.done < position:
            yield other.reached(position)
        began = int(env.now)
        me.arrivals.append(began)
        if meeting is not None:
            yield from meeting.join(env, network, moves, None if taken is None else (pace, taken))
            began = meeting.began
        elif moves:
            if taken is not None:
                pace.begin(taken)
            if isinstance(moves, int):
                yield env.timeout(moves)
            else:
                yield from network.carry(moves)
            if taken is not None:
                pace.finish(taken)
        me.starts.append(began)
        me.ends.append(int(env.now))
        me.done += 1
        if me.waiters:
            me.wake()
