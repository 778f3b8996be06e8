"""The table of allocations: when every buffer of every class is allocated and released.

Allocation never blocks, so the account follows from the times alone: a buffer is allocated when its writer
starts (a receive: when it is posted; in place: when it ends) and released when its last reader has ended.
Which instruction decides is the same for all classes of a stage; their times put it in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from simcluster.analysis.memory_usage.allocation_log import CATEGORIES, AllocationLog, OrderedRows
from simcluster.analysis.memory_usage.stage_allocations import log_allocations
from simcluster.analysis.timeline import NameIndex
from simcluster.cluster import Device
from simcluster.engine import ClassTiming
from simcluster.model import MemoryPlace
from simcluster.program import Program
from simcluster.trace import Column, Table, concatenate_tables

MOST_KEPT = 2**20
"""Rows of logs, or of classes in order, from which on earlier ones are made again: 50 MB."""

_COLUMNS = {
    "time": "times",
    "class": "",
    "category": "kinds",
    "bytes": "sizes",
    "buffer": "buffers",
    "micro_batch": "micro_batches",
}
"""Columns of tables, and what they are of ``OrderedRows``."""

_Key = tuple[int, int, int, int]
"""What tells the logs of classes apart: the part of the Program, and what runtime and communication take."""


def build_allocation_table(
    program: Program,
    parts: Sequence[int],
    devices: Sequence[Device],
    timings: Sequence[ClassTiming],
    place: MemoryPlace = MemoryPlace.DEVICE,
) -> Table:
    """The table of allocations (+bytes) and releases (-bytes), sorted by class and time, releases first.

    ``parts`` and ``devices`` are those of each class; ``place`` is the memory that it is about.
    """
    return AllocationAccount(program, parts, devices, timings, place).table()


@dataclass
class AllocationAccount:
    """The allocations of every class, put in order when they are asked for."""

    program: Program
    """What the classes run."""
    parts: Sequence[int]
    """Of each class its part of the Program."""
    devices: Sequence[Device]
    """Its device."""
    timings: Sequence[ClassTiming]
    """When its entries ran."""
    place: MemoryPlace = MemoryPlace.DEVICE
    """The memory that it is about."""
    buffers: NameIndex = field(default_factory=NameIndex)
    """The names of buffers."""
    named: int = 0
    """Classes whose buffers have numbers."""
    logs: dict[_Key, AllocationLog] = field(default_factory=dict)
    """Those that were made last."""
    ordered: dict[int, OrderedRows] = field(default_factory=dict)
    """Rows in order, likewise."""

    def table(self) -> Table:
        """The rows of all classes."""
        tables = [self.rows(index) for index in range(len(self.timings))]
        return concatenate_tables(tables, {"category": CATEGORIES, "buffer": list(self.buffers.names)})

    def rows(self, index: int) -> Table:
        """The rows of a class; columns are made when they are looked at."""
        return Table(
            _Rows(index, self.in_order(index)), {"category": CATEGORIES, "buffer": list(self.buffers.names)}
        )

    def in_order(self, index: int) -> OrderedRows:
        """The rows of a class's log in the order of time."""
        if index not in self.ordered:
            if sum(rows.times.size for rows in self.ordered.values()) > MOST_KEPT:
                self.ordered.clear()
            timing = self.timings[index]
            self.ordered[index] = self.log(index).in_order(timing.group, timing.columns)
        return self.ordered[index]

    def log(self, index: int) -> AllocationLog:
        """The log of a class. Buffers are numbered class by class, whichever is asked for first."""
        while self.named < index:
            self.named += 1
            self._made(self.named - 1)
        self.named = max(self.named, index + 1)
        return self._made(index)

    def _made(self, index: int) -> AllocationLog:
        device = self.devices[index]
        key = (self.parts[index], device.reserved, device.communicator, device.workspace)
        if key not in self.logs:
            if sum(len(log.sizes) for log in self.logs.values()) > MOST_KEPT:
                self.logs.clear()
            linked = self.timings[index].group.group.part
            self.logs[key] = log_allocations(
                self.program, self.parts[index], device, linked, self.buffers, self.place
            )
        return self.logs[key]


@dataclass(frozen=True)
class _Rows(Mapping[str, Column]):
    """The columns of a class's rows in the order of time."""

    index: int
    rows: OrderedRows

    def __getitem__(self, name: str) -> Column:
        if name == "class":
            return np.full(self.rows.times.size, self.index, dtype=np.int32)
        column: Column = getattr(self.rows, _COLUMNS[name])[0]
        return column

    def __iter__(self) -> Iterator[str]:
        return iter(_COLUMNS)

    def __len__(self) -> int:
        return len(_COLUMNS)
