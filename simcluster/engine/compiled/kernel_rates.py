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
def _end_parts(r: Arrays, pace: int, part: int, time: int, units: int, memory: int) -> int:
    """Finds the ends of all parts from one on, which begins at ``time``, at these rates; that of the last."""
    segment = r.paces[pace].segment
    base, first = r.segments[segment].first_part, r.paces[pace].first_part
    count = r.segments[segment + 1].first_part - base
    r.totals[0].cost += count - part
    for number in range(part, count):
        time = time_behind(r, time, _span(r, r.work[base + number], 0, _rate(number, units, memory)))
        r.part_end[first + number] = time
    return time


@compiled
def _turn(r: Arrays, pace: int, before_units: int, before_memory: int) -> None:
    """Goes on at the new rates from now."""
    now, units, memory = r.totals[0].now, r.paces[pace].rate_units, r.paces[pace].rate_memory
    segment = r.paces[pace].segment
    base, first = r.segments[segment].first_part, r.paces[pace].first_part
    count = r.segments[segment + 1].first_part - base
    if not r.paces[pace].known:
        _end_parts(r, pace, FIRST, r.paces[pace].start, before_units, before_memory)
    earlier = r.paces[pace].part
    part = earlier
    while part < count and r.part_end[first + part] <= now:
        part += 1
    if part == count:
        return  # over, at this very instant
    r.paces[pace].known = 1
    if part > earlier or not r.paces[pace].turned:
        r.paces[pace].part_since = r.part_end[first + part - 1] if part else r.paces[pace].start
        r.paces[pace].part_left, r.paces[pace].part_left_millionths = r.work[base + part], 0
    before = _rate(part, before_units, before_memory)
    spent = now - r.paces[pace].part_since
    whole, rest = spent // SCALE, before * (spent % SCALE)
    left = r.paces[pace].part_left - before * whole - rest // SCALE
    millionths = r.paces[pace].part_left_millionths - rest % SCALE
    if millionths < 0:
        left, millionths = left - 1, millionths + SCALE
    r.paces[pace].part_left, r.paces[pace].part_left_millionths = left, millionths
    r.paces[pace].part, r.paces[pace].part_since, r.paces[pace].turned = part, now, 1
    over = r.part_end[first + count - 1]
    r.part_end[first + part] = time_behind(r, now, _span(r, left, millionths, _rate(part, units, memory)))
    end = _end_parts(r, pace, part + 1, r.part_end[first + part], units, memory)
    if end != over:
        r.paces[pace].order = add_event(r, end, SEGMENT_ENDS, pace)


@compiled
def change_rates(r: Arrays, pace: int, sign: int, units: int, memory: int) -> None:
    """Something ``BEGINS`` or ``ENDS`` that takes this much of a device."""
    r.paces[pace].count += sign
    r.paces[pace].units += sign * units
    r.paces[pace].memory += sign * memory
    least = SCALE // (r.paces[pace].count + 1)
    rate_units = max(SCALE - r.paces[pace].units, least)
    rate_memory = max(SCALE - r.paces[pace].memory, least)
    before_units, before_memory = r.paces[pace].rate_units, r.paces[pace].rate_memory
    if rate_units == before_units and rate_memory == before_memory:
        return
    r.paces[pace].rate_units, r.paces[pace].rate_memory = rate_units, rate_memory
    if r.paces[pace].segment != NONE:
        _turn(r, pace, before_units, before_memory)


@compiled
def start_segment(r: Arrays, pace: int, entry: int, segment: int) -> None:
    """Starts kernels that run one after another."""
    now = r.totals[0].now
    r.paces[pace].segment, r.paces[pace].start, r.paces[pace].entry = segment, now, entry
    r.paces[pace].part, r.paces[pace].turned = 0, 0
    units, memory = r.paces[pace].rate_units, r.paces[pace].rate_memory
    end = time_behind(r, now, r.segments[segment].time)
    r.paces[pace].known = units != SCALE or memory != SCALE
    if r.paces[pace].known:
        end = _end_parts(r, pace, FIRST, now, units, memory)
    r.paces[pace].order = add_event(r, end, SEGMENT_ENDS, pace)


@compiled
def stop_segment(r: Arrays, pace: int, recorded: bool) -> None:
    """Ends the segment; one that was ever slowed is recorded."""
    if recorded and r.paces[pace].known:
        row, kernel = r.totals[0].stretched, r.totals[0].kernels
        r.stretched[row].pace, r.stretched[row].entry = pace, r.paces[pace].entry
        r.stretched[row].first_kernel = kernel
        segment, first = r.paces[pace].segment, r.paces[pace].first_part
        count = r.segments[segment + 1].first_part - r.segments[segment].first_part
        for part in range(PARTS - 1, count, PARTS):
            r.kernel_end[kernel] = r.part_end[first + part]
            kernel += 1
        r.totals[0].stretched, r.totals[0].kernels = row + 1, kernel
    r.paces[pace].segment = r.paces[pace].order = NONE
