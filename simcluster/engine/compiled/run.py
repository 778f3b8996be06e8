"""Programs in time by the compiled loop: the same times as the reference, to the nanosecond."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from simcluster.engine.compiled.arrays import TOO_LATE, Arrays, Ints
from simcluster.engine.compiled.loop import ASKS, ENDED, FULL, PAUSED, begin_run, run_slice
from simcluster.engine.compiled.stream_steps import BEGIN, READY
from simcluster.engine.compiled.tables import StreamRows, TableBuilder
from simcluster.engine.deadlock import HEADING, LATE, STILL
from simcluster.engine.fabric import Links
from simcluster.engine.pace import stretched_table
from simcluster.engine.priced_classes import PricedClasses
from simcluster.engine.timing import ClassTiming, Timing
from simcluster.engine.workload import Progress
from simcluster.errors import SimulationError
from simcluster.program import COMPUTE

FIRST_SLICE = 100_000
"""Work of the first slice, in events, entries of streams, and entries of vectors."""

SLICE_TIME = 0.05
"""Seconds that a slice should last. Between slices progress is told, and an interrupt is noticed."""


def run_compiled(workloads: Sequence[PricedClasses], links: Links, progress: Progress) -> list[Timing]:
    """Runs all workloads at once on the same links until each has ended once; SimulationError names who waits
    for whom if that never happens, OverflowError is raised for times beyond 64 bits.
    """
    builder = TableBuilder(links)
    rows = [builder.add_workload(classes) for classes in workloads]
    arrays = arrays_after(builder, progress)
    timings = []
    for number, (classes, own) in enumerate(zip(workloads, rows, strict=True)):
        if not arrays.workloads[number]["round"]:
            if _bytes_flow(arrays):
                raise OverflowError
            raise SimulationError(HEADING, *_stuck(classes, own, arrays))
        timings.append(_timing(classes, own, arrays))
    return timings


def arrays_after(builder: TableBuilder, progress: Progress) -> Arrays:
    """The arrays of what was added, once it has run until nothing happens any more."""
    arrays, transfers = builder.arrays(), list(builder.transfers)
    progress.total = int(arrays.streams["length"].sum())
    begin_run(arrays)
    totals = arrays.totals[0]
    answered, work = False, FIRST_SLICE
    while True:
        began = time.perf_counter()
        why = run_slice(arrays, work, answered)
        if why == PAUSED:
            work = next_work(work, time.perf_counter() - began)
        answered = why == ASKS
        if totals["failed"] == TOO_LATE:
            raise OverflowError
        if totals["failed"]:
            raise ValueError("the loads on one link add up to 2^33 or more: their sum would not be exact")
        progress.update(int(totals["done"]), int(totals["now"]))
        if why == ENDED:
            return arrays
        if why == FULL:
            arrays = _with_more_room(arrays)
        elif why == ASKS:
            transfer = transfers[_kind(arrays, int(totals["stream"]))["transfer"]]
            totals["value"] = transfer.latency(int(totals["now"]))


def next_work(work: int, seconds: float) -> int:
    """The work of a slice behind one of this ``work`` that lasted so long."""
    return max(1, min(2 * work, int(work * SLICE_TIME / max(seconds, 1e-9))))


def _kind(arrays: Arrays, number: int) -> Any:
    """The kind of communication that a stream is at."""
    stream = arrays.streams[number]
    return arrays.kinds[stream["row"] + arrays.entries["what"][stream["first_entry"] + stream["done"]]]


def _with_more_room(arrays: Arrays) -> Arrays:
    """The same with twice the room for segments that are slowed."""
    twice = [np.concatenate([rows, np.zeros_like(rows)]) for rows in (arrays.stretched, arrays.kernel_end)]
    return arrays._replace(stretched=twice[0], kernel_end=twice[1])


def _timing(classes: PricedClasses, rows: Sequence[StreamRows], arrays: Arrays) -> Timing:
    """What the classes of a workload did in its first round."""
    slowed = slowed_segments(arrays)
    timings = [_class_timing(classes, index, row, arrays, slowed) for index, row in enumerate(rows)]
    end = max((int(ends[-1]) for timing in timings for ends in timing.ends if len(ends)), default=0)
    count = sum(sum(row.lengths) for row in rows)
    return Timing(
        timings, end, count, int(arrays.totals["num_flows"][0]), int(arrays.totals["num_solves"][0])
    )


def _class_timing(
    classes: PricedClasses,
    index: int,
    rows: StreamRows,
    arrays: Arrays,
    slowed: dict[int, tuple[Ints, Ints, Ints]],
) -> ClassTiming:
    priced = classes.programs[index]
    starts, arrivals, ends = [], [], []
    nothing = np.zeros(0, dtype=np.int64)
    stretched = stretched_table(nothing, nothing, nothing, nothing)
    for number, stream in enumerate(priced.linked.streams):
        length = rows.lengths[number]
        began = arrays.starts[rows.start_rows[number] : rows.start_rows[number] + length]
        starts.append(began)
        if stream.name == COMPUTE:
            over = began + stream.duration
            if rows.pace in slowed:
                stretched = stretched_table(*slowed[rows.pace], began)
                over[stretched["entry"]] = stretched["end"]  # of several the last stays
            arrivals.append(nothing)
            ends.append(over)
        else:
            place = slice(rows.end_rows[number], rows.end_rows[number] + length)
            arrivals.append(arrays.arrivals[place])
            ends.append(arrays.ends[place])
    return ClassTiming(priced.linked, priced.codes, starts, arrivals, ends, stretched)


def slowed_segments(arrays: Arrays) -> dict[int, tuple[Ints, Ints, Ints]]:
    """By pace the entries of the segments that were slowed, how many kernels each has, and their ends."""
    count = int(arrays.totals["stretched"][0])
    paces, entries, first = (arrays.stretched[name][:count] for name in ("pace", "entry", "first_kernel"))
    sizes = np.diff(np.append(first, arrays.totals["kernels"][0]))
    order = np.argsort(paces, kind="stable")
    paces, entries, first, sizes = paces[order], entries[order], first[order], sizes[order]
    within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    ended = arrays.kernel_end[np.repeat(first, sizes) + within]
    bounds = np.flatnonzero(np.diff(paces)) + 1
    kernels = np.cumsum(sizes)
    return {
        int(paces[group[0]]): (
            entries[group],
            sizes[group],
            ended[kernels[group[0]] - sizes[group[0]] : kernels[group[-1]]],
        )
        for group in np.split(np.arange(count), bounds)
        if len(group)
    }


def _bytes_flow(arrays: Arrays) -> bool:
    """Whether bytes still flow when nothing happens any more: they arrive beyond 64 bits of nanoseconds."""
    slots = arrays.slots
    return bool(((slots["over"] == 0) & (slots["rate"] > 0) & np.isfinite(slots["left"])).any())


def _stuck(classes: PricedClasses, rows: Sequence[StreamRows], arrays: Arrays) -> list[str]:
    """One line per stuck stream."""
    done, held = [], []
    for row in rows:
        streams = range(row.first, row.first + len(row.lengths))
        done.append([int(arrays.streams["done"][stream]) for stream in streams])
        held.append([_held(arrays, stream) for stream in streams])
    return classes.stuck(done, held)


def _held(arrays: Arrays, stream: int) -> str | None:
    """What keeps an entry from ending that has arrived; None if none has."""
    own = arrays.streams[stream]
    if own["done"] == own["length"] or own["kernels"] or own["mode"] in (READY, BEGIN):
        return None
    kind = _kind(arrays, stream)
    return LATE if arrays.slots["arrived"][kind["slot"]] < kind["size"] else STILL
