"""The kernel of the engine: SimPy processes for streams, and the meetings where classes wait for each other.

A stream is a counter of ended entries. Whoever has to wait for an entry of another stream stops at its latch
only if the counter is not there yet; most waits cost nothing, and none an entry in the queue of events.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import field
from typing import Any

import simpy

from simcluster.cluster import ResourceShare
from simcluster.deferred_dataclass import dataclass
from simcluster.engine.communication import Moves
from simcluster.engine.reference.flows import Network
from simcluster.engine.reference.gates import Latch, StreamGates
from simcluster.engine.reference.pace import Pace

SimEvents = Generator[simpy.Event, None, None]


@dataclass(slots=True)
class Stream:
    """One stream of one class: how far it is, who waits for it, and what it has recorded."""

    name: str
    """What results call it."""
    env: simpy.Environment
    """The simulation that it runs in."""
    length: int
    """How many entries it has."""
    done: int = 0
    """How many of them have ended."""
    waiters: list[tuple[int, Latch]] = field(default_factory=list)
    """(Entries that must have ended, who goes on then)."""
    starts: list[int] = field(default_factory=list)
    """The start of every entry, in nanoseconds."""
    arrivals: list[int] = field(default_factory=list)
    """Of communication entries: when they were ready to start."""
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

    def wake(self) -> None:
        """Lets those go on who waited for an entry that is over now."""
        ready = [latch for position, latch in self.waiters if position <= self.done]
        self.waiters = [waiter for waiter in self.waiters if waiter[0] > self.done]
        for latch in ready:
            latch.succeed()


Share = tuple[Pace, ResourceShare]
"""What communication takes of a device whose kernels run at a pace."""


@dataclass(slots=True)
class Meeting:
    """A collective or transfer: it starts when the last of ``size`` classes has arrived and ends for all.

    ``began`` is the time (ns) at which the last one arrived; ``shares`` are what it takes of which devices.
    """

    size: int
    arrived: int = 0
    began: int = 0
    over: simpy.Event | None = None
    shares: list[Share] = field(default_factory=list)

    def arrive(self, env: simpy.Environment, taken: Sequence[Share] = ()) -> simpy.Event | None:
        """Somebody is here: where to wait for the end; None for the last, who has to ``carry`` the bytes."""
        self.arrived += 1
        self.shares += taken
        if self.arrived == self.size:
            return None
        if self.over is None:
            self.over = Latch(env)
        return self.over

    def carry(self, env: simpy.Environment, network: Network, moves: Moves) -> SimEvents:
        """Waits until the bytes are there, and lets all others go on."""
        self.began = int(env.now)
        yield from _carry(env, network, moves, self.shares)
        if self.over is not None:
            self.over.succeed()


Wait = tuple[Stream | None, int]
"""The stream that an entry waits for, and how many entries of it must have ended."""

Kernels = tuple[Wait, Any]
"""An entry of a compute stream: nanoseconds, or the segment that gives way to communication; 0 or None where
it only waits.
"""

Communication = tuple[Wait, tuple[Moves, Meeting | None, ResourceShare | None]]
"""An entry of a stream of communication: what it moves, who meets in it, and what it takes of the device."""


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
            me.wake()


def run_transfers(
    me: Stream,
    entries: Iterable[Communication],
    network: Network,
    pace: Pace | None = None,
    gates: StreamGates | None = None,
) -> SimEvents:
    """The process of a communication stream; what it takes slows the kernels at ``pace``. ``gates`` are those
    of its entries, if they have any.
    """
    env, arrived, started, ended = me.env, me.arrivals.append, me.starts.append, me.ends.append
    for (other, position), (moves, meeting, taken) in entries:
        if other is not None and other.done < position:
            yield me.until(other, position)
        began = int(env.now)
        arrived(began)
        if gates is not None and (held := gates.wait(me.done, me.latch)) is not None:
            yield held
        shares = () if taken is None or pace is None else ((pace, taken),)
        if meeting is not None:
            others = meeting.arrive(env, shares)
            if others is not None:
                yield others
            else:
                yield from meeting.carry(env, network, moves)
            began = meeting.began
        elif moves:
            yield from _carry(env, network, moves, shares)
        started(began)
        ended(int(env.now))
        if gates is not None:
            gates.end(me.done)
        me.done += 1
        if me.waiters:
            me.wake()


def _carry(env: simpy.Environment, network: Network, moves: Moves, shares: Sequence[Share]) -> SimEvents:
    """Waits until the bytes are there; so long it takes its shares of devices."""
    for pace, share in shares:
        pace.begin(share)
    if isinstance(moves, int):
        yield env.timeout(moves)
    else:
        yield from network.carry(moves)
    for pace, share in shares:
        pace.finish(share)
