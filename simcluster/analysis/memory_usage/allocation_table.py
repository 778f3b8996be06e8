"""The table of allocations: when every buffer of every class is allocated and released.

Allocation never blocks, so the account follows from the times alone: a buffer is allocated when its writer
starts (a receive: when it is posted; in place: when it ends) and released when its last reader has ended.
Which instruction decides is the same for all classes of a stage; their times put it in order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from simcluster.analysis.memory_usage.allocation_log import CATEGORIES, AllocationLog, log_allocations
from simcluster.analysis.timeline import InstructionTimes, NameIndex
from simcluster.cluster import Device
from simcluster.engine import ClassTiming
from simcluster.model import MemoryPlace
from simcluster.program import Program
from simcluster.trace import Table, concatenate_tables

Ints = NDArray[np.int64]

COLUMNS = ("time", "class", "category", "bytes", "buffer", "micro_batch")


def build_allocation_table(
    program: Program,
    parts: Sequence[int],
    devices: Sequence[Device],
    timings: Sequence[ClassTiming],
    times: Sequence[Mapping[int, InstructionTimes]],
    place: MemoryPlace = MemoryPlace.DEVICE,
) -> Table:
    """The table of allocations (+bytes) and releases (-bytes), sorted by class and time, releases first.

    ``parts`` and ``devices`` are those of each class; ``place`` is the memory that it is about.
    """
    buffers = NameIndex()
    known: dict[tuple[int, ...], AllocationLog] = {}
    tables = []
    for index, timing in enumerate(timings):
        device = devices[index]
        key = (parts[index], device.reserved, device.communicator, device.workspace)
        if key not in known:
            known[key] = log_allocations(program, parts[index], device, timing.linked, buffers, place)
        tables.append(_table(index, known[key], times[index]))
    return concatenate_tables(tables, {"category": CATEGORIES, "buffer": list(buffers.names)})


def _table(index: int, log: AllocationLog, times: Mapping[int, InstructionTimes]) -> Table:
    time = log.times(times)
    order = np.lexsort((log.buffers, log.sizes > 0, time))
    return Table(
        {
            "time": time[order],
            "class": np.full(len(time), index, dtype=np.int32),
            "category": log.kinds[order].astype(np.int8),
            "bytes": log.sizes[order],
            "buffer": log.buffers[order].astype(np.int32),
            "micro_batch": log.micro_batches[order].astype(np.int32),
        }
    )
