"""Where processes wait: at latches until they are let go, at gates until these have counted enough."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import field

import simpy

from simcluster.deferred_dataclass import dataclass
from simcluster.engine.communication import ClassGates
from simcluster.program import StepGate


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


@dataclass(slots=True)
class GateCounter:
    """A gate: by step how many it has counted, and who waits until it has counted enough."""

    counts: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    waiters: defaultdict[int, list[tuple[int, Latch]]] = field(default_factory=lambda: defaultdict(list))

    def add(self, step: int, amount: int) -> None:
        """Counts so many more in a step, and lets those go on who waited for them."""
        self.counts[step] += amount
        count, waiting = self.counts[step], self.waiters[step]
        self.waiters[step] = [(needed, latch) for needed, latch in waiting if needed > count]
        for needed, latch in waiting:
            if needed <= count:
                latch.succeed()


@dataclass
class StreamGates:
    """The gates of the entries of one stream, kind by kind; ``turns`` is how often each kind was over."""

    counters: defaultdict[StepGate, GateCounter]
    kinds: Sequence[ClassGates | None]
    which: Sequence[int]
    turns: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))

    def wait(self, entry: int, latch: Latch) -> Latch | None:
        """Where an entry has to wait; None if its gates are open."""
        gates = self._of(entry)
        if gates is None or gates.waits is None:
            return None
        step = self.turns[self.which[entry]] - gates.steps_ago
        counter = self.counters[gates.waits]
        if step < 0 or counter.counts[step] >= gates.count:
            return None
        counter.waiters[step].append((gates.count, latch))
        return latch

    def end(self, entry: int) -> None:
        """An entry is over."""
        gates = self._of(entry)
        if gates is None:
            return
        step = self.turns[self.which[entry]]
        self.turns[self.which[entry]] += 1
        for gate, amount in gates.opens:
            self.counters[gate].add(step, amount)

    def _of(self, entry: int) -> ClassGates | None:
        kind = self.which[entry]
        return self.kinds[kind] if kind >= 0 else None
