"""The table of allocations: when every buffer of every class is allocated and released.

Allocation never blocks, so the account follows from the times alone: a buffer is allocated when its writer
starts (a receive: when it is posted; in place: when it ends) and released when its last reader has ended.
Which instruction decides is the same for all classes of a stage; their times put it in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simcluster.analysis.memory_usage.allocation_log import CATEGORIES, AllocationLog
from simcluster.analysis.memory_usage.stage_allocations import log_allocations
from simcluster.analysis.timeline import NameIndex, event_times
from simcluster.cluster import Device
from simcluster.engine import ClassTiming
from simcluster.model import MemoryPlace
from simcluster.program import Program
from simcluster.trace import Column, Table, concatenate_tables

Ints = NDArray[np.int64]

MOST_KEPT = 2**20
"""Rows of logs from which on earlier ones are made again: 50 MB."""

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

    def table(self) -> Table:
        """The rows of all classes."""
        tables = [self.rows(index) for index in range(len(self.timings))]
        return concatenate_tables(tables, {"category": CATEGORIES, "buffer": list(self.buffers.names)})

    def rows(self, index: int) -> Table:
        """The rows of a class; columns are made when they are looked at."""
        log = self._log(index)
        times, order = _sorted(log.decisive(event_times(self.timings[index])[0]))
        names = {"category": CATEGORIES, "buffer": list(self.buffers.names)}
        return Table(_Rows(log, index, times, order), names)

    def _log(self, index: int) -> AllocationLog:
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
            linked = self.timings[index].linked
            self.logs[key] = log_allocations(
                self.program, self.parts[index], device, linked, self.buffers, self.place
            )
        return self.logs[key]


def _sorted(times: Ints) -> tuple[Ints, Ints]:
    """Times in order, and which they are; equal ones stay in their order."""
    bits = len(times).bit_length()
    if times.size and int(times.max()) >> (63 - bits):
        order = np.argsort(times, kind="stable")
        return times[order], order
    # Numbers are sorted faster than their places are. They come in few runs, which a stable sort merges.
    keys = times << bits
    keys |= np.arange(len(times))
    keys.sort(kind="stable")
    return keys >> bits, keys & ((1 << bits) - 1)


@dataclass(frozen=True)
class _Rows(Mapping[str, Column]):
    """The columns of a class's rows in the order of time."""

    log: AllocationLog
    index: int
    times: Ints
    order: Ints
    made: dict[str, Column] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Column:
        if name not in self.made:
            self.made[name] = self._column(name)
        return self.made[name]

    def _column(self, name: str) -> Column:
        log = self.log
        if name == "time":
            return self.times
        if name == "class":
            return np.full(len(self.order), self.index, dtype=np.int32)
        columns = {
            "category": log.kinds,
            "bytes": log.sizes,
            "buffer": log.buffers,
            "micro_batch": log.micro_batches,
        }
        return columns[name][self.order]

    def __iter__(self) -> Iterator[str]:
        return iter(("time", "class", "category", "bytes", "buffer", "micro_batch"))

    def __len__(self) -> int:
        return len(tuple(self))
