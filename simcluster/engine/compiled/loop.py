"""The loop: events happen in their order, and every stream that they let go goes on until it has to wait."""

from __future__ import annotations

from simcluster.engine.compiled.arrays import FIRST, NEVER, NONE, Arrays
from simcluster.engine.compiled.compiling import compiled, compiled_for_python
from simcluster.engine.compiled.events import (
    CHANGE,
    FLOW_ENDS,
    GO_ON,
    SEGMENT_ENDS,
    TRAFFIC_BEGINS,
    TRAFFIC_ENDS,
    add_event,
    drop_first,
    is_stale,
    wake,
)
from simcluster.engine.compiled.flows import begin_flow, change_capacity, finish_flow, settle_rates
from simcluster.engine.compiled.kernel_rates import stop_segment
from simcluster.engine.compiled.stream_steps import PHASE, READY, go_on, row_of, sleep

ENDED, PAUSED, FULL, ASKS = range(4)
"""Why a slice ends: nothing happens any more; it has worked enough; the records of slowed segments are full;
it needs the latency of a transfer, for the stream that ``totals`` names.
"""


@compiled
def _begin_traffic(r: Arrays, number: int) -> None:
    slot = (len(r.slots) - 1) - len(r.traffic) + number
    r.slots[slot].stream = NONE
    begin_flow(r, slot, r.traffic[number].vector, float("inf"), r.traffic[number].rate)
    if r.traffic[number].end < NEVER:
        add_event(r, r.traffic[number].end, TRAFFIC_ENDS, number)


@compiled
def _begin_round(r: Arrays, workload: int) -> None:
    """Lets all streams of a workload begin."""
    first, end = r.workloads[workload].first_stream, r.workloads[workload + 1].first_stream
    r.workloads[workload].left = end - first
    for stream in range(end - 1, first - 1, -1):
        r.streams[stream].done = 0
        r.streams[stream].mode = READY
        wake(r, stream)


@compiled
def _change_links(r: Arrays, number: int) -> None:
    """Makes the changes of capacity that are due, from one on; the next comes at its time."""
    while number < len(r.changes) and r.changes[number].time <= r.totals[0].now:
        change_capacity(r, r.changes[number].link, r.changes[number].capacity)
        number += 1
    if number < len(r.changes):
        add_event(r, r.changes[number].time, CHANGE, number)


@compiled_for_python
def begin_run(r: Arrays) -> None:
    """What happens first: changes, background traffic, and all streams in their order."""
    r.totals[0].waiting = len(r.workloads) - 1
    _change_links(r, FIRST)
    for number in range(len(r.traffic)):
        if r.traffic[number].begin > 0:
            add_event(r, r.traffic[number].begin, TRAFFIC_BEGINS, number)
        else:
            _begin_traffic(r, number)
    for workload in range(len(r.workloads) - 1, 0, -1):
        _begin_round(r, workload - 1)


@compiled
def _end(r: Arrays, stream: int, entry: int) -> int:
    """When an entry is over, of a run whose times are all recorded."""
    row, own = row_of(r, stream, entry), r.streams[stream]
    if row != NONE:
        return r.ends[row]
    what = r.entries[own.first_entry + entry]
    awaited = r.waits[what.first_wait]
    row = row_of(r, own.class_stream + awaited.stream, awaited.position - 1)
    return r.ends[row] + r.segments[own.row + what.what].time


@compiled
def _num_ended(r: Arrays, stream: int, time: int) -> int:
    """How many entries of a stream have ended by a time, of all that are recorded."""
    first, last = FIRST, r.streams[stream].length
    while first < last:
        middle = (first + last) // 2
        if _end(r, stream, middle) <= time:
            first = middle + 1
        else:
            last = middle
    return first


@compiled
def _ready(r: Arrays, stream: int, entry: int) -> int:
    """When what an entry waits for was over, of a run whose times are all recorded."""
    own = r.streams[stream]
    ready = _end(r, stream, entry - 1) if entry else 0
    row = own.first_entry + entry
    for wait in range(r.entries[row].first_wait, r.entries[row + 1].first_wait):
        awaited = r.waits[wait]
        ready = max(ready, _end(r, own.class_stream + awaited.stream, awaited.position - 1))
    return ready


@compiled_for_python
def resume_run(r: Arrays, time: int) -> None:
    """Goes on with a run whose times are all recorded, and right up to a ``time``: what has begun by then and
    has not ended begins once more, at its time.
    """
    r.totals[0].waiting = r.workloads[0].round + 1
    r.workloads[0].left = len(r.streams)
    for stream in range(len(r.streams)):
        done = _num_ended(r, stream, time)
        r.streams[stream].done = done
        r.totals[0].done += done
        r.streams[stream].mode = READY
        ready = _ready(r, stream, done) if done < r.streams[stream].length else NEVER
        if ready <= time:
            add_event(r, ready, GO_ON, stream)
        else:
            wake(r, stream)


@compiled
def _happen(r: Arrays, kind: int, whom: int) -> bool:
    """Lets an event happen; whether it ends the run."""
    if kind == GO_ON:
        wake(r, whom)
    elif kind == SEGMENT_ENDS:
        stream = r.paces[whom].stream
        stop_segment(r, whom, r.workloads[r.streams[stream].workload].round == 0)
        wake(r, stream)
    elif kind == FLOW_ENDS:
        wake(r, r.slots[whom].stream)
    elif kind == CHANGE:
        _change_links(r, whom)
    elif kind == TRAFFIC_BEGINS:
        _begin_traffic(r, whom)
    elif kind == TRAFFIC_ENDS:
        finish_flow(r, (len(r.slots) - 1) - len(r.traffic) + whom)
    elif r.totals[0].waiting == 0:
        return True
    else:
        _begin_round(r, whom)
    return False


@compiled_for_python
def run_slice(r: Arrays, most: int, answered: bool) -> int:
    """Lets time pass until something has to be done outside, or ``most`` work is done; says why it ends.

    ``answered``: ``value`` is the latency that ``stream`` asked for.
    """
    r.totals[0].cost = 0
    if answered:
        stream = r.totals[0].stream
        r.streams[stream].mode = PHASE
        if sleep(r, stream, r.totals[0].value, PHASE) == PHASE:
            wake(r, stream)
    while not r.totals[0].failed:
        if r.totals[0].stack:
            r.totals[0].stack -= 1
            if go_on(r, r.stack[r.totals[0].stack]):
                return ASKS
            continue
        if r.totals[0].cost > most:
            return PAUSED
        if r.totals[0].stretched == len(r.stretched) or r.totals[0].kernels + r.totals[0].most_kernels > len(
            r.kernel_end
        ):
            return FULL
        count = r.totals[0].heap
        if r.totals[0].pending and (not count or r.heap[0].time > r.totals[0].now):
            settle_rates(r)
            continue
        if not count:
            return ENDED
        time, order, event = r.heap[0].time, r.heap[0].order, r.heap[0].event
        drop_first(r)
        r.totals[0].cost += 1
        stale = is_stale(r, order, event)
        r.totals[0].now = time
        if not stale and _happen(r, event & 7, event >> 3):
            return ENDED
    return ENDED
