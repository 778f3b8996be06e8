"""How fast the kernels of a device go on beside its communication, and when they therefore end.

The rules are those of ``pace``. Work is counted in nanoseconds and millionths of one, two integers, so
nothing overflows; the ends of the parts of a segment are only kept while it is slowed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from simcluster.cluster import SCALE
from simcluster.engine.compiled.arrays import FIRST, NEVER, NONE, TOO_LATE, Arrays
from simcluster.engine.compiled.compiling import compiled
from simcluster.engine.compiled.events import SEGMENT_ENDS, add_event, time_behind
from simcluster.engine.linking import PARTS

_SIGNS: Any = np.array([1, -1])
BEGINS, ENDS = _SIGNS
"""What happens to communication beside kernels."""


@compiled
def _rate(part: int, units: int, memory: int) -> int:
    """Millionths at which a part goes on where those bound by units and by memory do at these."""
    which = part % PARTS
    if which == 0:
        return units
    return memory if which == 1 else SCALE


@compiled
def _span(r: Arrays, work: int, millionths: int, rate: int) -> int:
    """What work takes at a rate; the run fails if that is beyond 64 bits."""
    if rate == SCALE and not millionths:
        return work
    whole, rest = work // rate, (work % rate) * SCALE + millionths
    if whole >= NEVER // SCALE:
        r.totals[0].failed = TOO_LATE
        return FIRST
    return whole * SCALE + -(-rest // rate)


@compiled
def _num_parts(r: Arrays, segment: int) -> int:
    """How many parts the kernels of a segment have."""
    return r.segments[segment + 1].first_part - r.segments[segment].first_part


@compiled
def _end_parts(r: Arrays, pace: int, part: int, time: int, units: int, memory: int) -> int:
    """Finds the ends of all parts from one on, which begins at ``time``, at these rates; that of the last."""
    own = r.paces[pace]
    base, count = r.segments[own.segment].first_part, _num_parts(r, own.segment)
    r.totals[0].cost += count - part
    for number in range(part, count):
        time = time_behind(r, time, _span(r, r.work[base + number], 0, _rate(number, units, memory)))
        r.part_end[own.first_part + number] = time
    return time


@compiled
def _turn(r: Arrays, pace: int, before_units: int, before_memory: int) -> None:
    """Goes on at the new rates from now."""
    now, own = r.totals[0].now, r.paces[pace]
    base, first, count = r.segments[own.segment].first_part, own.first_part, _num_parts(r, own.segment)
    if not own.known:
        _end_parts(r, pace, FIRST, own.start, before_units, before_memory)
    part = own.part
    while part < count and r.part_end[first + part] <= now:
        part += 1
    if part == count:
        return  # over, at this very instant
    if part > own.part or not own.turned:
        own.part_since = r.part_end[first + part - 1] if part else own.start
        own.part_left, own.part_left_millionths = r.work[base + part], 0
    before, spent = _rate(part, before_units, before_memory), now - own.part_since
    whole, rest = spent // SCALE, before * (spent % SCALE)
    left = own.part_left - before * whole - rest // SCALE
    millionths = own.part_left_millionths - rest % SCALE
    if millionths < 0:
        left, millionths = left - 1, millionths + SCALE
    own.part_left, own.part_left_millionths = left, millionths
    own.part, own.part_since, own.turned, own.known = part, now, 1, 1
    over, rate = r.part_end[first + count - 1], _rate(part, own.rate_units, own.rate_memory)
    r.part_end[first + part] = time_behind(r, now, _span(r, left, millionths, rate))
    end = _end_parts(r, pace, part + 1, r.part_end[first + part], own.rate_units, own.rate_memory)
    if end != over:
        own.order = add_event(r, end, SEGMENT_ENDS, pace)


@compiled
def change_rates(r: Arrays, pace: int, sign: int, units: int, memory: int) -> None:
    """Something ``BEGINS`` or ``ENDS`` that takes this much of a device."""
    own = r.paces[pace]
    own.count += sign
    own.units += sign * units
    own.memory += sign * memory
    least = SCALE // (own.count + 1)
    before_units, before_memory = own.rate_units, own.rate_memory
    own.rate_units, own.rate_memory = max(SCALE - own.units, least), max(SCALE - own.memory, least)
    changed = own.rate_units != before_units or own.rate_memory != before_memory
    if changed and own.segment != NONE:
        _turn(r, pace, before_units, before_memory)


@compiled
def start_segment(r: Arrays, pace: int, entry: int, segment: int) -> None:
    """Starts kernels that run one after another."""
    now, own = r.totals[0].now, r.paces[pace]
    own.segment, own.start, own.entry, own.part, own.turned = segment, now, entry, 0, 0
    own.known = own.rate_units != SCALE or own.rate_memory != SCALE
    if own.known:
        end = _end_parts(r, pace, FIRST, now, own.rate_units, own.rate_memory)
    else:
        end = time_behind(r, now, r.segments[segment].time)
    own.order = add_event(r, end, SEGMENT_ENDS, pace)


@compiled
def stop_segment(r: Arrays, pace: int, recorded: bool) -> None:
    """Ends the segment; one that was ever slowed is recorded."""
    own, totals = r.paces[pace], r.totals[0]
    if recorded and own.known:
        slowed = r.stretched[totals.stretched]
        slowed.pace, slowed.entry, slowed.first_kernel = pace, own.entry, totals.kernels
        for part in range(PARTS - 1, _num_parts(r, own.segment), PARTS):
            r.kernel_end[totals.kernels] = r.part_end[own.first_part + part]
            totals.kernels += 1
        totals.stretched += 1
    own.segment = own.order = NONE
