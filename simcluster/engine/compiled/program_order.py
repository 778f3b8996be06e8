"""Many classes in program order: where no kernel gives way and nobody shares a link, time needs no events.

All classes of a group do the same, so an entry is timed for all of them at once: it starts when the last of
what it waits for is over. Any order that respects the waits gives the same times, those of the events.
"""

from __future__ import annotations

from simcluster.engine.compiled.arrays import NONE
from simcluster.engine.compiled.compiling import compiled, compiled_for_python
from simcluster.engine.compiled.lanes import Lanes


@compiled
def _waits(r: Lanes, lane: int) -> bool:
    """Whether a lane has to wait for another of its group, or for those it meets."""
    if r.lanes[lane].arrived:
        return True
    row = r.lanes[lane].first_entry + r.lanes[lane].done
    other = r.entries[row].wait_stream
    return other != NONE and r.lanes[r.lanes[lane].first_lane + other].done < r.entries[row].wait_position


@compiled
def _get_ready(r: Lanes, lane: int, base: int) -> None:
    """Finds when the classes are ready for the entry whose times are recorded from ``base`` on."""
    width, done = r.lanes[lane].width, r.lanes[lane].done
    for place in range(base, base + width):
        r.starts[place] = r.ends[place - width] if done else 0
    row = r.lanes[lane].first_entry + done
    other = r.entries[row].wait_stream
    if other != NONE:
        awaited = r.lanes[r.lanes[lane].first_lane + other].times - base
        awaited += (r.entries[row].wait_position - 1) * width
        for place in range(base, base + width):
            r.starts[place] = max(r.starts[place], r.ends[place + awaited])


@compiled
def _end(r: Lanes, lane: int, base: int) -> None:
    """An entry is over for all classes."""
    r.lanes[lane].done += 1
    width = r.lanes[lane].width
    r.totals[0] += width
    latest = r.totals[1]
    failed = False
    for place in range(base, base + width):
        latest = max(latest, r.ends[place])
        failed |= r.ends[place] < 0  # more than 64 bits hold
    r.totals[1] = latest
    if failed:
        r.totals[2] = 1


@compiled
def _run_kernels(r: Lanes, lane: int, base: int, what: int) -> None:
    """Times an entry of kernels, or one that only waits."""
    width = r.lanes[lane].width
    if what == NONE:
        for place in range(base, base + width):
            r.ends[place] = r.starts[place]
            if not r.lanes[lane].kernels:
                r.arrivals[place] = r.starts[place]
    else:
        first = r.lanes[lane].row + what * width - base
        for place in range(base, base + width):
            r.ends[place] = r.starts[place] + r.durations[first + place]
    _end(r, lane, base)


@compiled
def _arrive(r: Lanes, lane: int, base: int, kind: int) -> None:
    """Classes arrive where they meet others; the last lane to do so ends the entries of all."""
    first = r.kinds[kind].place - base
    for place in range(base, base + r.lanes[lane].width):
        slot, span = r.slots[first + place], r.spent[first + place]
        r.arrivals[place] = r.starts[place]
        r.met_at[slot] = max(r.met_at[slot], r.starts[place])
        if r.takes[slot] != span:
            if r.takes[slot] != NONE:
                r.totals[2] = 1  # who comes last decides, and only events say who that is
            r.takes[slot] = span
    r.lanes[lane].arrived = 1
    meeting = r.kinds[kind].meeting
    r.meetings[meeting].arrived += 1
    begin, end = r.meetings[meeting].first_member, r.meetings[meeting + 1].first_member
    if r.meetings[meeting].arrived < end - begin:
        return
    r.meetings[meeting].arrived = 0
    for number in range(begin, end):
        _part(r, r.members[number])
    for place in range(first + base, first + base + r.lanes[lane].width):
        r.met_at[r.slots[place]] = r.takes[r.slots[place]] = NONE


@compiled
def _part(r: Lanes, lane: int) -> None:
    """Those who have met are through."""
    width, done = r.lanes[lane].width, r.lanes[lane].done
    base = r.lanes[lane].times + done * width
    first = r.kinds[r.lanes[lane].row + r.entries[r.lanes[lane].first_entry + done].what].place - base
    for place in range(base, base + width):
        slot = r.slots[first + place]
        r.starts[place] = r.met_at[slot]
        r.ends[place] = r.met_at[slot] + r.takes[slot]
    r.lanes[lane].arrived = 0
    _end(r, lane, base)


@compiled_for_python
def run_lanes(r: Lanes, most: int) -> bool:
    """Times entries until nothing is left that can be, or ``most`` are timed; whether it goes on."""
    until = r.totals[0] + most
    moved = True
    while moved and not r.totals[2]:
        moved = False
        for lane in range(len(r.lanes)):
            while r.lanes[lane].done < r.lanes[lane].length and not _waits(r, lane):
                base = r.lanes[lane].times + r.lanes[lane].done * r.lanes[lane].width
                what = r.entries[r.lanes[lane].first_entry + r.lanes[lane].done].what
                _get_ready(r, lane, base)
                if what == NONE or r.lanes[lane].kernels:
                    _run_kernels(r, lane, base, what)
                else:
                    _arrive(r, lane, base, r.lanes[lane].row + what)
                moved = True
                if r.totals[0] > until:
                    return True
    return False
