"""Flows over shared links: when the bytes of every transfer are over (DESIGN 4.8).

As in the reference, a flow that meets no other costs one event; where flows meet, all starts, ends and
changes of one instant are applied before one re-solve of the links they reach, after everything else of that
instant.
"""

from __future__ import annotations

import numpy as np

from simcluster.engine.compiled.arrays import FIRST, NEVER, NONE, Arrays
from simcluster.engine.compiled.compiling import compiled
from simcluster.engine.compiled.event_heap import drop_first, push_row
from simcluster.engine.compiled.events import FLOW_ENDS, GO_ON, TIMER, add_event
from simcluster.engine.compiled.shares import find_rates, rate_alone


@compiled
def _touch(r: Arrays, link: int) -> None:
    if not r.links[link].touched:
        r.links[link].touched = 1
        r.touched[r.totals[0].touched] = link
        r.totals[0].touched += 1
    r.totals[0].pending = 1


@compiled
def _touch_row(r: Arrays, slot: int) -> None:
    vector = r.slots[slot].vector
    for entry in range(r.vectors[vector].first_load, r.vectors[vector + 1].first_load):
        _touch(r, r.loads[entry].link)
    r.totals[0].pending = 1


@compiled
def _set_rate(r: Arrays, slot: int, rate: float, now: int) -> None:
    """Gives a flow another rate from now on."""
    if r.slots[slot].rate != 0.0 and now > r.slots[slot].since:
        gone = r.slots[slot].rate * ((now - r.slots[slot].since) * 1e-9)
        r.slots[slot].left = max(0.0, r.slots[slot].left - gone)
    r.slots[slot].since, r.slots[slot].rate, r.slots[slot].end = now, rate, NEVER
    if rate != 0.0 and r.slots[slot].left < np.inf:
        more = np.rint(r.slots[slot].left / rate * 1e9)
        if more < float(NEVER - now):
            r.slots[slot].end = now + int(more)


@compiled
def begin_flow(r: Arrays, slot: int, vector: int, num_bytes: float, cap: float) -> None:
    """Puts a flow on its links."""
    now = r.totals[0].now
    r.totals[0].begun += 1
    r.slots[slot].number = r.totals[0].begun
    r.slots[slot].vector, r.slots[slot].cap, r.slots[slot].left = vector, cap, num_bytes
    r.slots[slot].since, r.slots[slot].rate, r.slots[slot].end = now, 0.0, NEVER
    r.slots[slot].own, r.slots[slot].over = NONE, 0
    alone = True
    node = r.slots[slot].first_node
    for entry in range(r.vectors[vector].first_load, r.vectors[vector + 1].first_load):
        link = r.loads[entry].link
        first = r.links[link].first_node
        r.nodes[node].previous, r.nodes[node].next = NONE, first
        if first != NONE:
            alone = False
            r.nodes[first].previous = node
        r.links[link].first_node = node
        node += 1
    r.totals[0].cost += node - r.slots[slot].first_node
    if not alone:
        _touch_row(r, slot)
        return
    _set_rate(r, slot, rate_alone(r, slot), now)
    if r.slots[slot].end == now:
        # Others that start at this very instant may slow it, before it has ended.
        r.slots[slot].rate, r.slots[slot].end = 0.0, NEVER
        _touch_row(r, slot)
    elif r.slots[slot].end < NEVER:
        r.slots[slot].own = add_event(r, r.slots[slot].end, FLOW_ENDS, slot)


@compiled
def finish_flow(r: Arrays, slot: int) -> None:
    """Takes a flow off its links; who shared one with it is looked at again."""
    r.slots[slot].over = 1
    r.slots[slot].own = NONE
    vector = r.slots[slot].vector
    met = False
    node = r.slots[slot].first_node
    for entry in range(r.vectors[vector].first_load, r.vectors[vector + 1].first_load):
        link = r.loads[entry].link
        before, behind = r.nodes[node].previous, r.nodes[node].next
        if before == NONE:
            r.links[link].first_node = behind
        else:
            r.nodes[before].next = behind
        if behind != NONE:
            r.nodes[behind].previous = before
        if r.links[link].first_node != NONE:
            met = True
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
            r.reached[num_flows] = slot
            num_flows += 1
            vector = r.slots[slot].vector
            for entry in range(r.vectors[vector].first_load, r.vectors[vector + 1].first_load):
                link = r.loads[entry].link
                if r.links[link].stamp != stamp:
                    r.links[link].stamp = stamp
                    r.touched[num_links] = link
                    num_links += 1
    return num_flows, num_links


@compiled
def _holds(r: Arrays, place: int) -> bool:
    """Whether a row of the heap of ends is still when its flow ends."""
    slot = r.ends_heap[place].item
    same = r.slots[slot].number == r.ends_heap[place].order and r.slots[slot].end == r.ends_heap[place].time
    return same and not r.slots[slot].over


@compiled
def _push_end(r: Arrays, slot: int) -> None:
    """Puts the end of a flow into the heap of ends, where it replaces an earlier one."""
    count = r.totals[0].ends
    if count == len(r.ends_heap):
        kept = count
        count = FIRST
        for place in range(kept):
            if _holds(r, place):
                end, number, other = (
                    r.ends_heap[place].time,
                    r.ends_heap[place].order,
                    r.ends_heap[place].item,
                )
                push_row(r.ends_heap, count, end, number, other)
                count += 1
    push_row(r.ends_heap, count, r.slots[slot].end, r.slots[slot].number, slot)
    r.totals[0].ends = count + 1


@compiled
def _arm(r: Arrays) -> None:
    """Sets the timer to the next end of a flow, unless one is set for then."""
    while r.totals[0].ends and not _holds(r, FIRST):
        drop_first(r.ends_heap, r.totals[0].ends)
        r.totals[0].ends -= 1
    if r.totals[0].ends and r.ends_heap[0].time < r.totals[0].armed:
        r.totals[0].armed = r.ends_heap[0].time
        add_event(r, r.ends_heap[0].time, TIMER, FIRST)


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
        r.flow_rates[0].rate = rate_alone(r, r.reached[0])
    else:
        r.totals[0].num_solves += 1
        r.totals[0].num_rates += num_flows
        find_rates(r, num_flows, num_links)
    now = r.totals[0].now
    changed = False
    for number in range(num_flows):
        slot = r.reached[number]
        if r.flow_rates[number].rate == r.slots[slot].rate:
            continue
        changed = True
        _set_rate(r, slot, r.flow_rates[number].rate, now)
        r.slots[slot].own = NONE
        if r.slots[slot].end < NEVER:
            _push_end(r, slot)
    if changed:
        _arm(r)


@compiled
def end_flows(r: Arrays) -> None:
    """Ends all flows that end now."""
    now = r.totals[0].now
    while r.totals[0].ends and r.ends_heap[0].time <= now:
        slot, holds = r.ends_heap[0].item, _holds(r, FIRST)
        drop_first(r.ends_heap, r.totals[0].ends)
        r.totals[0].ends -= 1
        if holds:
            finish_flow(r, slot)
            add_event(r, now, GO_ON, r.slots[slot].stream)
    if r.totals[0].armed <= now:
        r.totals[0].armed = NEVER
    _arm(r)
