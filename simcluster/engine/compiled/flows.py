"""Flows over shared links: when the bytes of every transfer are over (DESIGN 4.8).

As in the reference, a flow that meets no other costs one event; where flows meet, all starts, ends and
changes of one instant are applied before one re-solve of the links they reach, after everything else of that
instant.
"""

from __future__ import annotations

import numpy as np

from simcluster.engine.compiled.arrays import NEVER, NONE, Arrays
from simcluster.engine.compiled.compiling import compiled
from simcluster.engine.compiled.events import FLOW_ENDS, add_event
from simcluster.engine.compiled.shares import find_rates, loads_of, rate_alone


@compiled
def _touch(r: Arrays, link: int) -> None:
    if not r.links[link].touched:
        r.links[link].touched = 1
        r.touched[r.totals[0].touched] = link
        r.totals[0].touched += 1
    r.totals[0].pending = 1


@compiled
def _touch_row(r: Arrays, slot: int) -> None:
    for entry in loads_of(r, slot):
        _touch(r, r.loads[entry].link)
    r.totals[0].pending = 1


@compiled
def _span(r: Arrays, slot: int, rate: float) -> float:
    """Nanoseconds of what is left of a flow at a rate; infinite if it does not end so."""
    if rate == 0.0:
        return np.inf
    return float(np.rint(r.slots[slot].left / rate * 1e9))


@compiled
def _set_rate(r: Arrays, slot: int, rate: float) -> None:
    """Gives a flow another rate from now on."""
    now, flow = r.totals[0].now, r.slots[slot]
    if flow.rate != 0.0 and now > flow.since:
        flow.left = max(0.0, flow.left - flow.rate * ((now - flow.since) * 1e-9))
    flow.since, flow.rate, flow.ends = now, rate, NONE
    span = _span(r, slot, rate)
    if span < float(NEVER - now):
        flow.ends = add_event(r, now + int(span), FLOW_ENDS, slot)


@compiled
def begin_flow(r: Arrays, slot: int, vector: int, num_bytes: float, cap: float) -> None:
    """Puts a flow on its links."""
    flow, alone = r.slots[slot], True
    flow.vector, flow.cap, flow.left = vector, cap, num_bytes
    flow.since, flow.rate, flow.ends = r.totals[0].now, 0.0, NONE
    node = flow.first_node
    for entry in loads_of(r, slot):
        link = r.links[r.loads[entry].link]
        last = link.last_node
        r.nodes[node].previous, r.nodes[node].next = last, NONE
        if last == NONE:
            link.first_node = node
        else:
            alone = False
            r.nodes[last].next = node
        link.last_node = node
        node += 1
    r.totals[0].cost += node - flow.first_node
    if alone:
        rate = rate_alone(r, slot)
        # Others that start at this very instant may slow what would end in it.
        if _span(r, slot, rate) > 0.0:
            _set_rate(r, slot, rate)
            return
    _touch_row(r, slot)


@compiled
def finish_flow(r: Arrays, slot: int) -> None:
    """Takes a flow off its links; who shared one with it is looked at again."""
    flow, met = r.slots[slot], False
    flow.rate, flow.ends = 0.0, NONE
    node = flow.first_node
    for entry in loads_of(r, slot):
        link, own = r.links[r.loads[entry].link], r.nodes[node]
        if own.previous == NONE:
            link.first_node = own.next
        else:
            r.nodes[own.previous].next = own.next
        if own.next == NONE:
            link.last_node = own.previous
        else:
            r.nodes[own.next].previous = own.previous
        met = met or link.first_node != NONE
        node += 1
    if met:
        _touch_row(r, slot)


@compiled
def change_capacity(r: Arrays, link: int, capacity: float) -> None:
    """Gives a link another capacity."""
    r.links[link].capacity = capacity
    _touch(r, link)


@compiled
def _reached(r: Arrays, num_links: int) -> tuple[int, int]:
    """How many flows hang together with the touched links, and on how many links they are."""
    r.totals[0].stamp += 1
    stamp = r.totals[0].stamp
    for place in range(num_links):
        r.links[r.touched[place]].stamp = stamp
    num_flows = 0
    place = 0
    while place < num_links:
        node = r.links[r.touched[place]].first_node
        place += 1
        while node != NONE:
            slot = r.nodes[node].slot
            node = r.nodes[node].next
            if r.slots[slot].stamp == stamp:
                continue
            r.slots[slot].stamp = stamp
            r.found[num_flows].slot = slot
            num_flows += 1
            for entry in loads_of(r, slot):
                link = r.loads[entry].link
                if r.links[link].stamp != stamp:
                    r.links[link].stamp = stamp
                    r.touched[num_links] = link
                    num_links += 1
    return num_flows, num_links


@compiled
def settle_rates(r: Arrays) -> None:
    """Finds the rates of the flows that hang together with what started, ended or changed at this instant."""
    num_links = r.totals[0].touched
    for place in range(num_links):
        r.links[r.touched[place]].touched = 0
    r.totals[0].touched = r.totals[0].pending = 0
    num_flows, num_links = _reached(r, num_links)
    if not num_flows:
        return
    if num_flows == 1:
        r.found[0].rate = rate_alone(r, r.found[0].slot)
    else:
        r.totals[0].num_solves += 1
        r.totals[0].num_rates += num_flows
        find_rates(r, num_flows, num_links)
    for number in range(num_flows):
        if r.found[number].rate != r.slots[r.found[number].slot].rate:
            _set_rate(r, r.found[number].slot, r.found[number].rate)
