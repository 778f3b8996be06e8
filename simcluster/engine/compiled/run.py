"""Programs in time by the compiled loop: the same times as the reference, to the nanosecond."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from simcluster.engine.communication import Links, Transfer
from simcluster.engine.compiled.arrays import TOO_LATE, Arrays
from simcluster.engine.compiled.loop import ASKS, ENDED, FULL, PAUSED, begin_run, resume_run, run_slice
from simcluster.engine.compiled.program_order import time_in_program_order
from simcluster.engine.compiled.tables import GroupRows, TableBuilder
from simcluster.engine.implementation import LOOP
from simcluster.engine.pricing import PricedClasses, deadlock_error
from simcluster.engine.progress import Progress
from simcluster.engine.timing import GroupTiming, SlowedSegments, Timing

FIRST_SLICE = 100_000
"""Work of the first slice, in events, entries of streams, and entries of vectors."""

SLICE_TIME = 0.05
"""Seconds that a slice should last. Between slices progress is told, and an interrupt is noticed."""

LONG, WIDE = 1_500_000, 128
"""Entries, and classes beside each other, from which on a run goes in program order: of fewer classes events
are as fast. The reference times so many entries only if it is asked to: so how often rates were worked out,
which program order does not count, is the same on every machine.
"""


def run_compiled(workloads: Sequence[PricedClasses], links: Links, progress: Progress) -> list[Timing]:
    """Runs all workloads at once on the same links until each has ended once; SimulationError names who waits
    for whom if that never happens, OverflowError is raised for times beyond 64 bits.
    """
    _load(progress)
    builder = TableBuilder(links)
    rows = [builder.add_workload(classes) for classes in workloads]
    arrays, transfers = builder.arrays(), list(builder.transfers)
    progress.total = sum(classes.num_entries for classes in workloads)
    in_order = None
    if _goes_in_program_order(workloads[0], builder):
        in_order = time_in_program_order(workloads[0], rows[0], arrays, transfers, links, progress)
    if in_order is None:
        begin_run(arrays)
    else:
        resume_run(arrays, in_order[0])
    arrays = _run(arrays, transfers, progress)
    num_flows = in_order[1] if in_order else int(arrays.totals["num_flows"][0])
    timings = []
    for number, (classes, own) in enumerate(zip(workloads, rows, strict=True)):
        if not arrays.workloads[number]["round"]:
            if _bytes_flow(arrays):
                raise OverflowError
            raise deadlock_error(classes, _ended(classes, own, arrays))
        timings.append(_timing(classes, own, arrays, num_flows))
    progress.update(progress.done, max(timing.end for timing in timings))
    return timings


def _load(progress: Progress) -> None:
    """Loads the loop, which may have to be compiled."""
    before, progress.doing = progress.doing, progress.doing or "compiling"
    LOOP.load()
    progress.doing = before


def _goes_in_program_order(classes: PricedClasses, builder: TableBuilder) -> bool:
    """Whether many classes may go in program order for a while: nothing slows the kernels of their one
    workload, it has no gates, and links are what they are from the start.
    """
    links = builder.links
    changes = links.changes or links.background or any(transfer.late for transfer in builder.transfers)
    if changes or builder.paces or builder.gates or len(builder.workloads) > 2:
        return False
    of_one = sum(group.part.num_entries for group in classes.groups)
    return classes.many and classes.num_entries >= max(LONG, WIDE * of_one)


def _run(arrays: Arrays, transfers: Sequence[Transfer], progress: Progress) -> Arrays:
    """The arrays of a run that has begun, once nothing happens any more."""
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
            kind = arrays.streams["kind"][totals["stream"]]
            totals["value"] = transfers[arrays.kinds["transfer"][kind]].latency(int(totals["now"]))


def next_work(work: int, seconds: float) -> int:
    """The work of a slice behind one of this ``work`` that lasted so long."""
    return max(1, min(2 * work, int(work * SLICE_TIME / max(seconds, 1e-9))))


def _with_more_room(arrays: Arrays) -> Arrays:
    """The same with twice the room for segments that are slowed."""
    twice = [np.append(rows, np.empty_like(rows)) for rows in (arrays.stretched, arrays.kernel_end)]
    return arrays._replace(stretched=twice[0], kernel_end=twice[1])


def _timing(classes: PricedClasses, rows: Sequence[GroupRows], arrays: Arrays, num_flows: int) -> Timing:
    """What the classes of a workload did in its first round."""
    slowed = _slowed_segments(arrays)
    groups = []
    for group, own in zip(classes.groups, rows, strict=True):
        of_own = {column: slowed[pace] for column, pace in enumerate(own.paces.tolist()) if pace in slowed}
        groups.append(GroupTiming(group, own.times(arrays), own.recorded, group.segment_times, of_own))
    solves, rates = (int(arrays.totals[name][0]) for name in ("num_solves", "num_rates"))
    return Timing(groups, classes.num_entries, num_flows, solves, rates)


def _slowed_segments(arrays: Arrays) -> dict[int, SlowedSegments]:
    """By pace the segments that were slowed."""
    count, num_kernels = (int(arrays.totals[name][0]) for name in ("stretched", "kernels"))
    paces, entries, first = (arrays.stretched[name][:count] for name in ("pace", "entry", "first_kernel"))
    sizes, ended = np.diff(first, append=num_kernels), arrays.kernel_end[:num_kernels]
    order = np.argsort(paces.astype(np.min_scalar_type(len(arrays.paces))), kind="stable")
    last = np.cumsum(np.bincount(paces, minlength=len(arrays.paces)))
    return {
        pace: SlowedSegments(entries[group], first[group], sizes[group], ended)
        for pace, group in enumerate(np.split(order, last[:-1]))
        if len(group)
    }


def _bytes_flow(arrays: Arrays) -> bool:
    """Whether bytes still flow when nothing happens any more: they arrive beyond 64 bits of nanoseconds."""
    slots = arrays.slots
    return bool(((slots["rate"] > 0) & np.isfinite(slots["left"])).any())


def _ended(classes: PricedClasses, rows: Sequence[GroupRows], arrays: Arrays) -> list[list[int]]:
    """By class and stream how many entries have ended."""
    done = arrays.streams["done"]
    firsts = [(int(rows[group].streams[column]), group) for group, column in classes.place_of]
    return [done[first : first + len(classes.groups[group].part.streams)].tolist() for first, group in firsts]
