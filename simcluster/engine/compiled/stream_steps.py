"""What a stream does, step by step: what its process does in the reference.

Even what happens at one instant happens in the same order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from simcluster.engine.compiled.arrays import LARGEST, NONE, Arrays
from simcluster.engine.compiled.compiling import compiled
from simcluster.engine.compiled.events import GO_ON, ROUND_ENDS, add_event, time_behind, wake
from simcluster.engine.compiled.flows import begin_flow, finish_flow
from simcluster.engine.compiled.kernel_rates import BEGINS, ENDS, change_rates, start_segment

_MODES: Any = np.arange(5)  # plain integers would be types of their own
READY, CARRIED, PHASE, FLOWING, OVER = _MODES
"""Where a stream goes on: at what its next entry waits for; when the bytes have arrived; at a phase; when
that has flowed; when an entry is over.
"""

ASKING, STOPS = 100, -1
"""What a step of a stream gives instead of a mode: it needs the latency of a transfer, or has to wait, and
its ``mode`` says where it goes on.
"""


@compiled
def _end_stream(r: Arrays, stream: int) -> None:
    """A stream is through: with the last one of a workload among others, that begins anew."""
    workload = r.streams[stream].workload
    r.workloads[workload].left -= 1
    if r.workloads[workload].left:
        return
    if r.workloads[workload].round == 0:
        r.totals[0].waiting -= 1
    r.workloads[workload].round += 1
    if len(r.workloads) > 2:
        add_event(r, r.totals[0].now, ROUND_ENDS, workload)


@compiled
def row_of(r: Arrays, stream: int, entry: int) -> int:
    """Where the end of an entry is recorded, or ``NONE``."""
    own = r.streams[stream]
    recorded = r.entries[own.first_entry + entry].recorded
    return NONE if recorded == NONE else own.ends + recorded * own.meetings


@compiled
def _waits(r: Arrays, stream: int) -> bool:
    """Whether a stream has to wait for another, which then knows it."""
    row = r.streams[stream].first_entry + r.streams[stream].done
    for wait in range(r.entries[row].first_wait, r.entries[row + 1].first_wait):
        other = r.streams[stream].class_stream + r.waits[wait].stream
        if r.streams[other].done < r.waits[wait].position:
            r.streams[stream].wait_until = r.waits[wait].position
            r.streams[stream].next_waiter = r.streams[other].last_waiter
            r.streams[other].last_waiter = stream
            r.streams[other].awaited = min(r.streams[other].awaited, r.waits[wait].position)
            return True
    return False


@compiled
def _reverse(r: Arrays, first: int) -> None:
    """Turns the streams on the stack from ``first`` on around: the first to be let go goes on first."""
    last = r.totals[0].stack - 1
    while first < last:
        r.stack[first], r.stack[last] = r.stack[last], r.stack[first]
        first, last = first + 1, last - 1


@compiled
def _wake_all(r: Arrays, waiter: int, reached: int) -> tuple[int, int]:
    """Lets those go on who wait for no more than has been ``reached``; the last of the others, and the least
    that they wait for.
    """
    last, before, awaited = NONE, NONE, LARGEST
    while waiter != NONE:
        following, until = r.streams[waiter].next_waiter, r.streams[waiter].wait_until
        if until <= reached:
            # The last one first: who is let go last goes on first.
            wake(r, waiter)
        else:
            if before == NONE:
                last = waiter
            else:
                r.streams[before].next_waiter = waiter
            before, awaited = waiter, min(awaited, until)
        waiter = following
    if before != NONE:
        r.streams[before].next_waiter = NONE
    return last, awaited


@compiled
def sleep(r: Arrays, stream: int, span: int, mode: int) -> int:
    """Lets a stream go on after a time, in a mode."""
    if span == 0:
        return mode
    r.streams[stream].mode = mode
    add_event(r, time_behind(r, r.totals[0].now, span), GO_ON, stream)
    return STOPS


@compiled
def _begin_kernels(r: Arrays, stream: int) -> int:
    """Starts an entry of kernels."""
    entry = r.streams[stream].done
    segment = r.streams[stream].row + r.entries[r.streams[stream].first_entry + entry].what
    pace = r.streams[stream].pace
    if pace != NONE:
        r.streams[stream].mode = OVER
        start_segment(r, pace, entry, segment)
        return STOPS
    return sleep(r, stream, r.segments[segment].time, OVER)


@compiled
def _take(r: Arrays, slot: int, sign: int) -> None:
    """Slows the kernels of all who have met, or lets them go on."""
    member = r.slots[slot].first_member
    while member != NONE:
        if r.streams[member].pace != NONE:
            kind = r.streams[member].kind
            if r.kinds[kind].units != NONE:
                change_rates(r, r.streams[member].pace, sign, r.kinds[kind].units, r.kinds[kind].memory)
        member = r.streams[member].next_member


@compiled
def _waits_at_gate(r: Arrays, stream: int, gated: int) -> bool:
    """Whether a stream has to wait for a gate, which then knows it."""
    if r.gated[gated].gate == NONE:
        return False
    step = r.gated[gated].turn - r.gated[gated].steps_ago
    if step < 0:
        return False
    row = r.gated[gated].gate + step
    if r.gates[row].counted >= r.gated[gated].count:
        return False
    r.streams[stream].wait_until = r.gated[gated].count
    r.streams[stream].next_waiter = r.gates[row].last_waiter
    r.gates[row].last_waiter = stream
    return True


@compiled
def _open_gates(r: Arrays, stream: int) -> None:
    """Counts up the gates of the entry that a stream is at, and lets those go on for whom that is enough."""
    gated = r.kinds[r.streams[stream].kind].gated
    if gated == NONE:
        return
    step = r.gated[gated].turn
    r.gated[gated].turn += 1
    for number in range(r.gated[gated].first_open, r.gated[gated + 1].first_open):
        row = r.opens[number].gate + step
        r.gates[row].counted += r.opens[number].amount
        r.gates[row].last_waiter, _ = _wake_all(r, r.gates[row].last_waiter, r.gates[row].counted)


@compiled
def _arrive(r: Arrays, stream: int) -> int:
    """A stream of communication is ready for its entry; the last one to arrive carries the bytes for all."""
    now, own = r.totals[0].now, r.streams[stream]
    own.kind = kind = own.row + r.entries[own.first_entry + own.done].what
    slot = r.kinds[kind].slot
    gated = r.kinds[kind].gated
    if gated != NONE and r.gated[gated].gate != NONE:
        # Nobody meets at a gate.
        r.slots[slot].met_at = now
        r.streams[stream].mode = OVER
        return STOPS if _waits_at_gate(r, stream, gated) else OVER
    r.slots[slot].arrived += 1
    r.streams[stream].next_member = NONE
    if r.slots[slot].arrived == 1:
        r.slots[slot].first_member = stream
    else:
        r.streams[r.slots[slot].last_member].next_member = stream
    r.slots[slot].last_member = stream
    if r.slots[slot].arrived < r.kinds[kind].size:
        r.streams[stream].mode = OVER
        return STOPS
    r.slots[slot].met_at = now
    _take(r, slot, BEGINS)
    transfer = r.kinds[kind].transfer
    if transfer == NONE:
        return sleep(r, stream, r.kinds[kind].time, CARRIED)
    r.streams[stream].phase, r.streams[stream].carried_since = 0, now
    if r.transfers[transfer].late:
        return ASKING
    return sleep(r, stream, r.transfers[transfer].latency, PHASE)


@compiled
def _flow(r: Arrays, stream: int) -> int:
    """Begins the next phase of what a stream carries; a transfer takes a nanosecond at least."""
    kind = r.streams[stream].kind
    transfer = r.kinds[kind].transfer
    phase = r.transfers[transfer].first_phase + r.streams[stream].phase
    if phase == r.transfers[transfer + 1].first_phase:
        if r.totals[0].now > r.streams[stream].carried_since:
            return CARRIED
        return sleep(r, stream, 1, CARRIED)
    slot = r.kinds[kind].slot
    r.totals[0].num_flows += 1
    r.slots[slot].stream = stream
    r.streams[stream].mode = FLOWING
    begin_flow(r, slot, r.phases[phase].vector, r.phases[phase].num_bytes, r.phases[phase].cap)
    return STOPS


@compiled
def _part(r: Arrays, stream: int) -> int:
    """The bytes have arrived: all who have met go on, in the order in which they came."""
    slot = r.kinds[r.streams[stream].kind].slot
    _take(r, slot, ENDS)
    member, first = r.slots[slot].first_member, r.totals[0].stack
    r.slots[slot].arrived = 0
    if member == stream:
        return OVER
    r.streams[stream].mode = OVER
    while member != NONE:
        wake(r, member)
        member = r.streams[member].next_member
    _reverse(r, first)
    return STOPS


@compiled
def _end_entry(r: Arrays, stream: int) -> int:
    """An entry is over: those who waited for it go on before the stream does."""
    entry = r.streams[stream].done
    if r.workloads[r.streams[stream].workload].round == 0:
        row = row_of(r, stream, entry)
        if row != NONE:
            r.ends[row] = r.totals[0].now
        if not r.streams[stream].kernels:
            begun = r.streams[stream].begun + entry * r.streams[stream].meetings
            r.begun[begun] = r.slots[r.kinds[r.streams[stream].kind].slot].met_at
    if len(r.gated) > 1 and not r.streams[stream].kernels:
        _open_gates(r, stream)
    r.streams[stream].done = entry + 1
    r.totals[0].done += 1
    r.totals[0].cost += 1
    if r.streams[stream].awaited > entry + 1:
        return READY
    r.streams[stream].mode = READY
    wake(r, stream)
    last, r.streams[stream].awaited = _wake_all(r, r.streams[stream].last_waiter, entry + 1)
    r.streams[stream].last_waiter = last
    return STOPS


@compiled
def go_on(r: Arrays, stream: int) -> bool:
    """Lets a stream go on until it has to wait; whether it has to for an answer."""
    mode = r.streams[stream].mode
    while True:
        if mode == READY:
            if r.streams[stream].done == r.streams[stream].length:
                _end_stream(r, stream)
                return False
            if _waits(r, stream):
                r.streams[stream].mode = READY
                return False
            if r.streams[stream].kernels:
                mode = _begin_kernels(r, stream)
            else:
                mode = _arrive(r, stream)
            if mode == ASKING:
                r.totals[0].stream = stream
                return True
        elif mode == PHASE:
            mode = _flow(r, stream)
        elif mode == FLOWING:
            finish_flow(r, r.kinds[r.streams[stream].kind].slot)
            r.streams[stream].phase += 1
            mode = PHASE
        elif mode == CARRIED:
            mode = _part(r, stream)
        elif mode == OVER:
            mode = _end_entry(r, stream)
        if mode < 0:
            return False
