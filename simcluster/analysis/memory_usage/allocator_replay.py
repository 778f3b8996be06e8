"""A replay of a class's allocations through a caching allocator: what is reserved, and what is in use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simcluster.analysis.memory_usage.allocation_log import OUTSIDE
from simcluster.analysis.memory_usage.caching_allocator import CachingAllocator, PoolRules
from simcluster.program import Category
from simcluster.trace import Table

Ints = NDArray[np.int64]

STEADY = 4
"""After so many equal micro-batches without a new segment, later ones are taken to reserve none either."""

MASTER = ".master"
"""What the names of master copies end with: frameworks make them with the model, other states later."""


@dataclass(frozen=True)
class ReservedMemory:
    """The memory that an allocator holds for a class, in bytes.

    ``allocated`` and ``reserved`` are their peaks; sizes are rounded as the allocator rounds them. ``times``
    (ns) and ``levels``: when more was reserved in the last pass through the steps, and how much from then on.
    """

    allocated: int
    reserved: int
    times: Ints
    levels: Ints


def replay_allocator(account: Table, rules: Sequence[PoolRules], steps: int = 1) -> ReservedMemory:
    """The memory that a class reserves: its allocations, in order, through an allocator with these pools.

    What it holds all along comes first, in the order of the account, but for the moments of the optimizer:
    frameworks make them in the first update, when the blocks of a whole step are already there. So the step
    is gone through twice, and of ``steps`` that are alike only one. Where micro-batches repeat what those
    before them did, and ``STEADY`` of them have made the allocator reserve nothing, the others are taken to
    do the same. Buffers that no allocator of a framework knows are left out.
    """
    return _Replay(account, CachingAllocator.of(tuple(rules)), steps).run()


@dataclass(frozen=True)
class _Moves:
    """Allocations and releases in order.

    From row ``begin`` on, ``count`` periods of ``period`` rows are alike, each one micro-batch later.
    """

    times: Ints
    buffers: Ints
    micro_batches: Ints
    sizes: Ints
    begin: int = 0
    period: int = 0
    count: int = 0

    @classmethod
    def of(cls, rows: Table, steps: int) -> _Moves:
        """The rows of one of several steps, if these do not overlap, with what repeats in them."""
        size = rows["bytes"]
        count = len(size) // steps
        if steps == 1 or len(size) % steps or size[:count].sum():
            count = len(size)
        time, buffers, micro_batches, sizes = (
            rows[name][:count].astype(np.int64) for name in ("time", "buffer", "micro_batch", "bytes")
        )
        return cls(time, buffers, micro_batches, sizes, *_periods(buffers, micro_batches, sizes))

    @property
    def names(self) -> Ints:
        """A number for every buffer of every micro-batch."""
        return self.buffers << _BITS | (self.micro_batches + 1)


_BITS = 32


def _periods(buffers: Ints, micro_batches: Ints, sizes: Ints) -> tuple[int, int, int]:
    """(first row, rows, number) of the periods around the middle that differ in their micro-batch only."""
    if not len(buffers):
        return 0, 0, 0
    middle = len(buffers) // 2
    same = (buffers == buffers[middle]) & (sizes == sizes[middle])
    following = np.flatnonzero(same & (micro_batches == micro_batches[middle] + 1))
    if not len(following) or following[0] <= middle:
        return 0, 0, 0
    period = int(following[0]) - middle
    if sizes[middle : middle + period].sum():  # more is held from one to the next
        return 0, 0, 0
    alike = (buffers[period:] == buffers[:-period]) & (sizes[period:] == sizes[:-period])
    alike &= micro_batches[period:] == micro_batches[:-period] + 1
    other = np.flatnonzero(~alike)
    after = int(np.searchsorted(other, middle))
    begin = int(other[after - 1]) + 1 if after else 0
    end = (int(other[after]) if after < len(other) else len(alike)) + period
    return begin, period, (end - begin) // period


@dataclass
class _Replay:
    account: Table
    allocator: CachingAllocator
    steps: int
    peak: int = 0
    growth: list[tuple[int, int]] = field(default_factory=list)

    def run(self) -> ReservedMemory:
        names = self.account.names["buffer"]
        outside = [number for number, name in enumerate(names) if name in OUTSIDE]
        inside = self.account.where(~np.isin(self.account["buffer"], outside))
        held, late = _held(inside)
        moves = _Moves.of(inside.where(~(held | late)), self.steps)
        self._hold(inside.where(held))
        self._through(moves)
        self._hold(inside.where(late))
        self.growth = [(0, self.allocator.reserved)]
        self.peak = self.allocator.allocated
        self._through(moves)
        times, levels = np.array(self.growth, dtype=np.int64).T
        return ReservedMemory(self.peak, self.allocator.reserved, times, levels)

    def _hold(self, rows: Table) -> None:
        """Allocates what is never released."""
        for name, size in zip(rows["buffer"].tolist(), rows["bytes"].tolist(), strict=True):
            self.allocator.allocate((name,), size)

    def _through(self, moves: _Moves) -> None:
        """Goes through the rows, and jumps over periods that change nothing any more."""
        end = moves.begin + moves.count * moves.period
        self._rows(moves, 0, moves.begin)
        passing = frozenset(np.unique(moves.buffers[moves.begin : end]).tolist())
        shift, calm = 0, 0
        for start in range(moves.begin, end, moves.period or 1):
            known = self.allocator.reserved
            before = self._alive(passing) if calm >= STEADY - 1 else frozenset()
            self._rows(moves, start, start + moves.period)
            calm = calm + 1 if self.allocator.reserved == known else 0
            left = (end - start) // moves.period - 1
            # What others keep of earlier micro-batches, as other chunks do, would not go on with these.
            alike = calm >= STEADY and self._alive(passing) == {name + 1 for name in before}
            if alike and left > 0:
                shift = left
                break
        if shift:
            self._rename(passing, shift)
        self._rows(moves, end, len(moves.sizes))

    def _alive(self, buffers: frozenset[int]) -> frozenset[int]:
        """The names of what is alive of some buffers."""
        return frozenset(
            name for name in self.allocator.blocks if isinstance(name, int) and name >> _BITS in buffers
        )

    def _rename(self, passing: frozenset[int], shift: int) -> None:
        """What is alive of some buffers as if so many micro-batches had passed."""
        blocks = self.allocator.blocks
        self.allocator.blocks = {
            name + shift if isinstance(name, int) and name >> _BITS in passing else name: spans
            for name, spans in blocks.items()
            if spans
        }

    def _rows(self, moves: _Moves, begin: int, end: int) -> None:
        allocator = self.allocator
        known = allocator.reserved
        names, sizes = moves.names[begin:end].tolist(), moves.sizes[begin:end].tolist()
        for row, (name, change) in enumerate(zip(names, sizes, strict=True)):
            if change < 0:
                allocator.release(name)
                continue
            allocator.allocate(name, change)
            if allocator.allocated > self.peak:
                self.peak = allocator.allocated
            if allocator.reserved > known:
                known = allocator.reserved
                self.growth.append((int(moves.times[begin + row]), known))


def _held(inside: Table) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Rows of what is never released: from the start, and from the first update on."""
    key = inside["buffer"].astype(np.int64) << _BITS | (inside["micro_batch"].astype(np.int64) + 1)
    sizes = inside["bytes"]
    held = (sizes > 0) & ~np.isin(key, np.unique(key[sizes < 0]))
    made = np.array([not name.endswith(MASTER) for name in inside.names["buffer"]], dtype=np.bool_)
    late = held & made[inside["buffer"]]
    late &= inside["category"] == inside.index("category", Category.OPTIMIZER)
    return held & ~late, late
