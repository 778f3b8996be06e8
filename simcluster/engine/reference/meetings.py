"""Where processes wait: at latches until they are let go, at meetings for all others and the bytes, at gates
until these have counted enough.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import field

import simpy

from simcluster.cluster import ResourceShare
from simcluster.deferred_dataclass import dataclass
from simcluster.engine.communication import ClassGates, Moves
from simcluster.engine.reference.flows import Network
from simcluster.engine.reference.pace import Pace
from simcluster.program import StepGate

Share = tuple[Pace, ResourceShare]
"""What communication takes of a device whose kernels run at a pace."""

Attend = Callable[[], Generator[simpy.Event, None, int]]
"""Does an entry of communication, and says when it began (ns): when the last of those who meet had come."""


class Latch(simpy.Event):
    """Where processes wait, as often as they must; they go on at once when they are let go.

    Whoever lets them go does so at the instant at which they can, so nothing of this has to pass through the
    queue of events. Nor do they let one another go without end: a collective takes time, and the streams of a
    class wait for each other in turn.
    """

    def __init__(self, env: simpy.Environment) -> None:
        super().__init__(env)
        self._ok, self._value = True, None

    def succeed(self, value: object = None) -> Latch:
        """Lets them go on; returns when all wait again, for whatever it may be."""
        callbacks, self.callbacks = self.callbacks, []
        for callback in callbacks:
            callback(self)
        return self


Waiters = list[tuple[int, Latch]]
"""(What must have been reached, who goes on then)."""


def wake(waiters: Waiters, reached: int) -> None:
    """Lets those go on who have waited for no more than what has been reached."""
    ready = [latch for needed, latch in waiters if needed <= reached]
    waiters[:] = [waiter for waiter in waiters if waiter[0] > reached]
    for latch in ready:
        latch.succeed()


class Meeting:
    """Where ``size`` classes meet, again and again: what they do starts when the last of them has arrived and
    ends for all.
    """

    def __init__(self, network: Network, size: int = 1) -> None:
        self.network, self.size = network, size
        self._arrived = self._began = 0
        self._shares: list[Share] = []
        self._over = Latch(network.env)

    def attend(self, moves: Moves, *taken: Share) -> Generator[simpy.Event, None, int]:
        """Waits for the others, the last of whom waits until the bytes are there; so long these take their
        shares of devices. An ``Attend`` for what is moved and taken.
        """
        env = self.network.env
        self._arrived += 1
        self._shares += taken
        if self._arrived < self.size:
            yield self._over
            return self._began
        began = self._began = int(env.now)
        for pace, share in self._shares:
            pace.begin(share)
        if isinstance(moves, int):
            yield env.timeout(moves)
        else:
            yield from self.network.carry(moves)
        for pace, share in self._shares:
            pace.finish(share)
        self._arrived = 0
        self._shares.clear()
        self._over.succeed()
        return began


@dataclass(slots=True)
class GateCounter:
    """A gate in one step: how many it has counted, and who waits until it has counted enough."""

    count: int = 0
    waiters: Waiters = field(default_factory=list)


@dataclass(slots=True)
class GatedEntries:
    """Entries of one kind of a class that wait at a gate, or count up gates when they are over."""

    counters: Mapping[tuple[StepGate, int], GateCounter]
    gates: ClassGates
    latch: Latch
    inner: Attend | None
    """How they are done, but for the gates; None: no more than that."""
    turn: int = 0
    """How many of them have begun."""

    def attend(self) -> Generator[simpy.Event, None, int]:
        """Does the next one, as an ``Attend``."""
        began, gates = int(self.latch.env.now), self.gates
        step, self.turn = self.turn, self.turn + 1
        if gates.waits is not None and step >= gates.steps_ago:
            awaited = self.counters[gates.waits, step - gates.steps_ago]
            if awaited.count < gates.count:
                awaited.waiters.append((gates.count, self.latch))
                yield self.latch
        if self.inner is not None:
            began = yield from self.inner()
        for gate, amount in gates.opens:
            counter = self.counters[gate, step]
            counter.count += amount
            wake(counter.waiters, counter.count)
        return began
