"""The table of allocations: when every buffer of every class is allocated and released.

Allocation never blocks, so the account follows from the times alone: a buffer is allocated when its writer
starts (a receive: when it is posted; in place: when it ends) and released when its last reader has ended.
Which instruction decides is the same for all classes of a stage; their times put it in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

import numpy as np

from simcluster.analysis.memory_usage.allocation_log import CATEGORIES, AllocationLog, OrderedRows
from simcluster.analysis.memory_usage.stage_allocations import StageAllocations
from simcluster.deferred_dataclass import dataclass
from simcluster.engine import Timing
from simcluster.model import MemoryPlace
from simcluster.program import PlacedProgram
from simcluster.trace import Column, NameIndex, Table, concatenate_tables

MOST_KEPT = 2**21
"""Rows of logs, or of classes in order, from which on earlier ones are made again: 70 MB, or 50 MB."""

_Key = tuple[int, int, int, int]
"""What tells the logs of classes apart: the part of the Program, and what runtime and communication take."""


@dataclass
class AllocationAccount:
    """The allocations of every class, put in order when they are asked for."""

    placed: PlacedProgram
    timing: Timing
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
        """The rows of all classes: allocations (+bytes) and releases (-bytes), sorted by class and time,
        releases first.
        """
        tables = [self.rows(index) for index in range(len(self.timing.classes))]
        return concatenate_tables(tables, self._names)

    def rows(self, index: int) -> Table:
        """The rows of a class."""
        ordered = self.in_order(index)
        log, numbers, times = ordered.log, ordered.numbers[0], ordered.times[0]
        columns: dict[str, Column] = {
            "time": times,
            "class": np.full(times.size, index, dtype=np.int32),
            "category": log.kinds.take(numbers),
            "bytes": ordered.sizes[0],
            "buffer": log.buffers.take(numbers),
            "micro_batch": log.micro_batches.take(numbers),
        }
        return Table(columns, self._names)

    @property
    def _names(self) -> dict[str, Sequence[str]]:
        return {"category": CATEGORIES, "buffer": self.buffers.listed}

    def in_order(self, index: int) -> OrderedRows:
        """The rows of a class's log in the order of time."""
        if index not in self.ordered:
            if sum(rows.times.size for rows in self.ordered.values()) > MOST_KEPT:
                self.ordered.clear()
            timing = self.timing.classes[index]
            self.ordered[index] = self.log(index).in_order(timing.group, timing.columns)
        return self.ordered[index]

    def log(self, index: int) -> AllocationLog:
        """The log of a class. Buffers are numbered class by class, whichever is asked for first."""
        for other in range(self.named, index):
            self._made(other)
        self.named = max(self.named, index + 1)
        return self._made(index)

    def _made(self, index: int) -> AllocationLog:
        part, device = self.placed.parts[index], self.placed.devices[index]
        key = (part, device.reserved, device.communicator, device.workspace)
        if key not in self.logs:
            if sum(len(log.sizes) for log in self.logs.values()) > MOST_KEPT:
                self.logs.clear()
            linked = self.timing.classes[index].part
            program = self.placed.program
            stage = StageAllocations(program, part, device, linked, self.buffers, self.place)
            self.logs[key] = stage.log()
        return self.logs[key]
