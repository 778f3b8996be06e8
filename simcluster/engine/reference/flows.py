"""Flows over shared links in simulated time: when the bytes of every transfer are over (DESIGN 4.8).

A flow that meets no other on its links costs one timeout. Where flows meet, all starts, ends and changes of
one instant are applied before one re-solve of the links they reach, after everything else of that instant.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Sequence

import numpy as np
import simpy
from simpy.events import NORMAL, EventPriority

from simcluster.deferred_dataclass import dataclass
from simcluster.engine.communication import CapacityChange, FlowPhase, Links, Transfer
from simcluster.engine.reference.sharing import Row, fair_rates

SimEvents = Generator[simpy.Event, None, None]

LAST = EventPriority(NORMAL + 1)
"""The priority of what comes after everything else of an instant."""

NEVER = 2**63 - 1
"""A time (ns) that does not come."""


@dataclass(slots=True, eq=False)
class Flow:
    """Bytes that are being transferred."""

    row: Row
    """Its load vector as a row of the solver."""
    vector: int
    """The number of its load vector."""
    cap: float
    """Bytes/s at most."""
    left: float
    """Bytes that were left when its rate last changed."""
    since: int
    """When that was, in nanoseconds."""
    done: simpy.Event
    """Happens at its end at this rate: a timeout, replaced when the rate changes; if it has no end, never."""
    rate: float = 0.0
    """Bytes/s since then."""


def _span(flow: Flow, rate: float) -> int:
    """Nanoseconds of what is left of a flow at a rate; ``NEVER`` if it does not end so."""
    return round(flow.left / rate * 1e9) if rate and flow.left < np.inf else NEVER


class Network:
    """Links and the flows on them.

    ``num_flows`` counts the phases carried, ``num_solves`` the re-solves of flows that shared a link, and
    ``num_rates`` the rates found in these.
    """

    def __init__(self, env: simpy.Environment, links: Links) -> None:
        self.env = env
        self.num_flows = 0
        self.num_solves = 0
        self.num_rates = 0
        self._vectors = links.vectors
        self._capacity = links.capacity.tolist()
        self._rows: dict[int, Row] = {}
        self._alone: dict[int, float] = {}
        self._users: defaultdict[int, dict[Flow, None]] = defaultdict(dict)
        self._active: dict[Flow, None] = {}
        self._touched: dict[int, None] = {}
        if links.changes:
            env.process(self._changing(sorted(links.changes)))
        for traffic in links.background:
            env.process(
                self._background(FlowPhase(traffic.vector, np.inf, traffic.rate), traffic.begin, traffic.end)
            )

    @property
    def carries_bytes(self) -> bool:
        """Whether a flow that has an end is under way, and does not stand still."""
        return any(flow.rate and flow.left < np.inf for flow in self._active)

    def carry(self, transfer: Transfer) -> SimEvents:
        """Waits until a transfer is over: its latency, then its phases; it takes 1 ns at least."""
        env = self.env
        began = env.now
        if latency := transfer.latency(int(began)):
            yield env.timeout(latency)
        for phase in transfer.phases:
            self.num_flows += 1
            flow = self._begin(phase)
            yield flow.done
            self._finish(flow)
        if env.now == began:
            yield env.timeout(1)

    # -- starts and ends --------------------------------------------------------------------------------

    def _begin(self, phase: FlowPhase) -> Flow:
        row = self._row(phase.vector)
        now = int(self.env.now)
        flow = Flow(row, phase.vector, phase.cap, phase.num_bytes, now, simpy.Event(self.env))
        users = [self._users[link] for link, _ in row]
        alone = not any(users)
        for there in users:
            there[flow] = None
        self._active[flow] = None
        # Others that start at this very instant may slow what would end in it.
        if alone and _span(flow, rate := self._rate_alone(flow)):
            self._set(flow, rate, now)
        else:
            self._touch(row)
        return flow

    def _finish(self, flow: Flow) -> None:
        """Takes a flow off its links; who shared one with it is looked at again."""
        del self._active[flow]
        users = [self._users[link] for link, _ in flow.row]
        for there in users:
            del there[flow]
        if any(users):
            self._touch(flow.row)

    def _row(self, vector: int) -> Row:
        if vector not in self._rows:
            begin, end = self._vectors.offsets[vector : vector + 2].tolist()
            entries = slice(begin, end)
            links, loads = self._vectors.links[entries].tolist(), self._vectors.loads[entries].tolist()
            self._rows[vector] = tuple(zip(links, loads, strict=True))
        return self._rows[vector]

    def _rate_alone(self, flow: Flow) -> float:
        """What the solver would give a flow that shares no link."""
        rate = self._alone.get(flow.vector)
        if rate is None:
            capacity = self._capacity
            rate = min([capacity[link] / load for link, load in flow.row], default=np.inf)
            self._alone[flow.vector] = rate
        return min(flow.cap, rate)

    def _set(self, flow: Flow, rate: float, now: int) -> None:
        """Gives a flow another rate from now on."""
        if flow.rate and now > flow.since:
            flow.left = max(0.0, flow.left - flow.rate * ((now - flow.since) * 1e-9))
        flow.since, flow.rate = now, rate
        span, before = _span(flow, rate), flow.done
        flow.done = self.env.timeout(span) if span < NEVER - now else simpy.Event(self.env)
        # Whoever waits for its end waits for the new one.
        flow.done.callbacks, before.callbacks = before.callbacks, flow.done.callbacks

    # -- sharing ----------------------------------------------------------------------------------------

    def _touch(self, row: Row) -> None:
        if not self._touched:
            late = simpy.Event(self.env)
            late._ok, late._value = True, None
            late.callbacks.append(self._settle)
            self.env.schedule(late, priority=LAST)
        self._touched.update((link, None) for link, _ in row)

    def _settle(self, late: simpy.Event) -> None:
        """Solves for the flows that hang together with what started, ended or changed at this instant."""
        flows = self._reached()
        self._touched.clear()
        now = int(self.env.now)
        if len(flows) > 1:
            self.num_solves += 1
            self.num_rates += len(flows)
            rates = fair_rates([flow.row for flow in flows], [flow.cap for flow in flows], self._capacity)
        else:
            rates = [self._rate_alone(flow) for flow in flows]
        for flow, rate in zip(flows, rates, strict=True):
            if rate != flow.rate:
                self._set(flow, rate, now)

    def _reached(self) -> list[Flow]:
        """The flows that hang together with the touched links."""
        links = list(self._touched)
        seen = set(links)
        flows: dict[Flow, None] = {}
        for link in links:  # grows
            for flow in self._users[link]:
                if flow in flows:
                    continue
                flows[flow] = None
                fresh = [other for other, _ in flow.row if other not in seen]
                seen.update(fresh)
                links += fresh
        return list(flows)

    # -- changes ----------------------------------------------------------------------------------------

    def _changing(self, changes: Sequence[CapacityChange]) -> SimEvents:
        """Applies the changes of capacity, each at its time."""
        for change in changes:
            if change.time > self.env.now:
                yield self.env.timeout(change.time - self.env.now)
            self._capacity[change.link] = change.capacity
            self._alone.clear()
            self._touch(((change.link, 1.0),))

    def _background(self, phase: FlowPhase, begin: int, end: int | None) -> SimEvents:
        """A flow without an end of its own, from ``begin`` to ``end``."""
        if end is not None and end < self.env.now:
            return
        if begin > self.env.now:
            yield self.env.timeout(begin - self.env.now)
        flow = self._begin(phase)
        if end is not None:
            yield self.env.timeout(end - self.env.now)
            self._finish(flow)
