"""What the compiled loop works on: arrays of records, one for every stream, entry, meeting, flow, link and so
on.

Integers are of 64 bits, or of 32 in what the loop looks at most: less memory is sooner there. All times are
nanoseconds. Streams lie class after class, the classes of one workload after another. A *slot* is where those
who meet carry their bytes, or one stream that copies by itself: of them only one collective or transfer is
under way at a time.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np
from numpy.typing import NDArray

Records = NDArray[Any]

NONE = -1
"""No stream, meeting, transfer or node."""

NEVER = 2**63 - 1
"""A time that does not come."""

LARGEST = 2**31 - 1
"""The largest integer of 32 bits."""

FIRST: Any = np.int64(0)
"""A place; a plain 0 would be a type of its own, for which functions are compiled once more."""

TOO_LATE, TOO_LOADED = 1, 2
"""Why a run fails: a time is beyond 64 bits of nanoseconds, the loads on a link add up to more than is exact.
"""


KINDS: dict[str, np.dtype[Any]] = {}
"""What the arrays of records hold, by their names in ``Arrays``."""


def record(name: str, ints: str, floats: str = "", small: str = "") -> None:
    """Declares the records of an array: their fields, named as in a ``namedtuple``; ``small`` of 32 bits."""
    kinds: Any = (np.int64, ints), (np.float64, floats), (np.int32, small)
    KINDS[name] = np.dtype([(field, kind) for kind, fields in kinds for field in fields.split()], align=True)


record(
    "totals",
    "now order heap stack touched pending num_flows num_solves num_rates "
    "done waiting stretched kernels most_kernels stream value stamp cost failed",
)
"""One record: the time; how many events were made, are in the heap; streams on the stack; touched links;
whether rates are to be found at the end of this instant; flows of transfers, re-solves, rates found in them;
entries that ended; workloads in their first round; slowed segments, their kernels, the most kernels of one;
the stream that asks for a latency, and the answer; how often flows were searched for; work done in this
slice; why the run has failed.
"""

record(
    "streams",
    "ends begun carried_since",
    small="first_entry length class_stream kernels pace workload meetings row done kind mode "
    "wait_until awaited last_waiter next_waiter next_member phase",
)
"""A stream: its first entry (equal classes share entries), and how many it has; the first stream of its
class; 1 if it runs kernels; the pace of its class's kernels, or ``NONE`` if nothing slows them; its workload;
where the end of its first entry is recorded, and its start, if it communicates, and how far those of the next
are from them; its first segment, or its first kind of communication. Then how many entries have ended, the
kind of communication that it is at, and where it goes on; the position it waits for; the least for which
others wait for it, the last of them, and who waited for the same before it; who has arrived at the same
meeting after it; the phase that it carries, and since when.
"""

record("entries", "", small="first_wait what recorded")
"""An entry: the first of its waits; the number of its segment, or kind of communication, among those of the
stream; which of those whose ends are recorded it is, ``NONE`` if it starts when the only one that it waits
for ends. One more at the end.
"""

record("waits", "", small="stream position")
"""What an entry waits for: a stream of its class, and how many entries of that must have ended."""

record("kinds", "time", small="slot size transfer units memory gated")
"""A kind of communication: the slot of those who meet, and how many they are; how long it takes where it
loads no link, else what it puts on links; millionths of the device's units that it takes (``NONE``: nothing
at all), and of the memory's bandwidth; what it has to do with gates, or ``NONE``.
"""

record("gated", "gate count steps_ago turn first_open")
"""What a kind of communication has to do with gates: the first row of the gate that it waits for (``NONE``:
it waits for none), until that has counted so many in the step so many ago; how often it was over; the first
of the gates that it counts up. One more at the end."""

record("opens", "gate amount")
"""A gate that is counted up, by its first row, and by how many."""

record("gates", "counted last_waiter")
"""A gate in one step, those of the others behind it: how many it has counted, and the last stream that
waits."""

record("transfers", "latency late first_phase")
"""A transfer: its latency, or 1 if that depends on when it begins; its first phase. One more at the end."""

record("phases", "vector", "num_bytes cap")
"""Bytes that flow with one load vector, at most ``cap`` of them a second."""

record("vectors", "first_load")
"""A load vector. One more at the end."""

record("loads", "link", "load")
"""What one byte of a vector puts on a link."""

record(
    "slots",
    "first_node arrived first_member last_member met_at vector since ends stream stamp",
    "cap left rate",
)
"""A slot: its nodes, one for every link that its flow may load. Who meets: how many have arrived, the first
and the last of those who wait, when the last one came. Its flow: the vector; since when the rate holds; the
event that ends it; the stream that carries it; which search has found it; bytes/s at most, bytes that were
left at ``since``, bytes/s. One more at the end; background traffic has the last ones.
"""

record("links", "first_node last_node touched stamp full", "capacity load used share gone spent")
"""A link: the first and the last node of the flows on it; 1 if something changed on it at this instant; which
search has found it. While rates are found: 1 if none of its flows can rise to less elsewhere, 2 if some of
this round are on it; bytes/s; loads of flows that still rise; bytes/s of the others; bytes/s left per load;
loads of flows with one rate; bytes/s of the flows of this round.
"""

record("nodes", "slot next previous")
"""One flow on one link: its slot, and the nodes before and after it on the link."""

record("found", "slot rising", "reach rate")
"""A flow whose rate is to be found: its slot; to what it can rise, and the rate. In ``rising``, not of this
flow but in an order of its own, the numbers of those that still rise.
"""

record("segments", "first_part time")
"""Kernels that run one after another: the first of their parts; nanoseconds at full rates. One more at the
end.
"""

record(
    "paces",
    "stream first_part count units memory rate_units rate_memory segment start entry known turned "
    "part part_since part_left part_left_millionths order",
)
"""The kernels of a class that communication slows: their stream, and the first of its rows in ``part_end``;
how much communication is under way, and what that takes of units and memory, in millionths; at how many
millionths parts bound by units and by memory go on. The segment that runs: its start and entry; 1 if
``part_end`` has its ends, which it has once it was slowed; 1 if rates changed while it ran; the part that ran
then, since when what is left of it counts, and how many nanoseconds at full rate, and millionths of one, that
is; the event that ends it.
"""

record("workloads", "first_stream left round")
"""A workload: its first stream; streams that have not ended in this round; rounds that are over. One more at
the end.
"""

record("changes", "time link", "capacity")
"""From a time on, a link has another capacity."""

record("traffic", "vector begin end", "rate")
"""Traffic of others: bytes/s at most, from when to when."""

record("heap", "time order event")
"""An event: when, in which order it was made, 8 x whom it concerns + its kind."""

record("stretched", "pace entry first_kernel")
"""A segment that was slowed, in the order of their ends: its pace, its entry, its first kernel in
``kernel_end``.
"""


Arrays = namedtuple(
    "Arrays",
    "totals streams entries waits kinds transfers phases vectors loads slots links nodes segments work paces "
    "part_end workloads changes traffic heap stack touched marked found begun ends stretched "
    "kernel_end gated opens gates",
)
"""A run: what it is made of, and where it is; those of ``KINDS`` are records, the others integers.

``work`` has by part of a kernel its nanoseconds at full rate, ``part_end`` by part of the segments that run
when it ends at the rates of now, ``kernel_end`` by kernel of slowed segments when it ended. ``stack`` are
the streams that go on at this instant, the next one last; ``touched`` the links on which something changed at
this instant, then those reached from them; ``marked`` those of one round of finding rates. ``begun``
(when communication starts) and ``ends`` are times by entry of every stream, those of one group and stream
after another: in rows of those who always meet; each class is by itself with its kernels. The ``heap`` is a
heap of events, four below each: the earliest first, of one time by their order, then free ones; ``changes``
are in the order of their times.
"""
