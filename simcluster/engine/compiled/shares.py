"""Max-min fair rates of the flows that a search has found, by progressive filling (DESIGN 4.8).

The same operations on the same numbers as ``sharing``, so the same bits: sums of loads are exact in any
order, and what a link's flows use is added by ascending rate.
"""

from __future__ import annotations

from simcluster.engine.communication import MOST
from simcluster.engine.compiled.arrays import TOO_LOADED, Arrays
from simcluster.engine.compiled.compiling import compiled


@compiled
def loads_of(r: Arrays, slot: int) -> range:
    """The places of the loads of a slot's flow."""
    vector = r.slots[slot].vector
    return range(r.vectors[vector].first_load, r.vectors[vector + 1].first_load)


@compiled
def rate_alone(r: Arrays, slot: int) -> float:
    """What a flow gets that shares no link."""
    rate = r.slots[slot].cap
    for entry in loads_of(r, slot):
        rate = min(rate, r.links[r.loads[entry].link].capacity / r.loads[entry].load)
    return rate


@compiled
def _freeze(r: Arrays, count: int) -> int:
    """Finds the rates of this round; how many. Those that still rise are the first in ``rising`` then."""
    for place in range(count):
        flow = r.found[r.found[place].rising]
        flow.reach = r.slots[flow.slot].cap
        r.totals[0].cost += len(loads_of(r, flow.slot))
        for entry in loads_of(r, flow.slot):
            link = r.links[r.loads[entry].link]
            link.full = 1
            flow.reach = min(flow.reach, link.share)
    for place in range(count):
        flow = r.found[r.found[place].rising]
        for entry in loads_of(r, flow.slot):
            link = r.links[r.loads[entry].link]
            if flow.reach < link.share:
                link.full = 0
    left, right = 0, count
    while left < right:
        number = r.found[left].rising
        flow = r.found[number]
        freezes = flow.reach == r.slots[flow.slot].cap
        for entry in loads_of(r, flow.slot):
            if r.links[r.loads[entry].link].full:
                freezes = True
                break
        if freezes:
            right -= 1
            r.found[left].rising, r.found[right].rising = r.found[right].rising, number
            flow.rate = flow.reach
        else:
            left += 1
    return count - right


@compiled
def _by_rate(r: Arrays, first: int, end: int) -> None:
    """Puts the numbers from ``first`` to ``end`` in ``rising`` in the order of their rates (Shell's sort)."""
    gap = 1
    while 3 * gap < end - first:
        gap = 3 * gap + 1
    while gap:
        for place in range(first + gap, end):
            number = r.found[place].rising
            rate = r.found[number].rate
            before = place - gap
            while before >= first and r.found[r.found[before].rising].rate > rate:
                r.found[before + gap].rising = r.found[before].rising
                before -= gap
            r.found[before + gap].rising = number
        gap //= 3


@compiled
def _use(r: Arrays, first: int, end: int) -> None:
    """Takes what the flows from ``first`` to ``end`` in ``rising`` use off their links."""
    _by_rate(r, first, end)
    changed = 0
    place = first
    while place < end:
        rate = r.found[r.found[place].rising].rate
        behind = place
        while behind < end and r.found[r.found[behind].rising].rate == rate:
            for entry in loads_of(r, r.found[r.found[behind].rising].slot):
                r.links[r.loads[entry].link].gone += r.loads[entry].load
            behind += 1
        for at in range(place, behind):
            for entry in loads_of(r, r.found[r.found[at].rising].slot):
                link = r.links[r.loads[entry].link]
                if link.gone == 0.0:
                    continue
                if link.full < 2:
                    link.full, link.spent = 2, 0.0
                    r.marked[changed] = r.loads[entry].link
                    changed += 1
                link.spent += rate * link.gone
                link.load -= link.gone
                link.gone = 0.0
        place = behind
    for at in range(changed):
        link = r.links[r.marked[at]]
        link.used += link.spent
        if link.load > 0:
            # Exactly it never falls; rounding must not make it.
            link.share = max(link.share, (link.capacity - link.used) / link.load)


@compiled
def find_rates(r: Arrays, num_flows: int, num_links: int) -> None:
    """Puts the rates of ``num_flows`` flows in ``reached`` into ``rates``; their links are the first
    ``num_links`` in ``touched``.
    """
    for place in range(num_links):
        r.links[r.touched[place]].load = r.links[r.touched[place]].used = 0.0
    for number in range(num_flows):
        r.found[number].rising = number
        for entry in loads_of(r, r.found[number].slot):
            r.links[r.loads[entry].link].load += r.loads[entry].load
    for place in range(num_links):
        link = r.links[r.touched[place]]
        if link.load >= MOST:
            r.totals[0].failed = TOO_LOADED
        if link.load > 0:
            link.share = link.capacity / link.load
    count = num_flows
    while count:
        frozen = _freeze(r, count)
        _use(r, count - frozen, count)
        count -= frozen
