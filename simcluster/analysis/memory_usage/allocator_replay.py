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
    return _Replay(account, CachingAllocator.of(rules), steps).run()


@dataclass(frozen=True)
class _Moves:
    """Allocations and releases in order.

    ``names`` has a number for every buffer of every micro-batch. From row ``begin`` on, ``count`` periods of
    ``period`` rows are alike, each one micro-batch later, with these ``passing`` buffers.
    """

    times: Ints
    names: Ints
    sizes: Ints
    begin: int
    period: int
    count: int
    passing: frozenset[int]

    @classmethod
    def of(cls, rows: Table, chosen: Ints, steps: int) -> _Moves:
        """The chosen rows of one of several steps, if these do not overlap, with what repeats in them."""
        count = len(chosen) // steps
        if steps == 1 or len(chosen) % steps or rows["bytes"][chosen[:count]].sum():
            count = len(chosen)
        chosen = chosen[:count]
        buffers, micro_batches, sizes = (rows[name][chosen] for name in ("buffer", "micro_batch", "bytes"))
        begin, period, number = _periods(buffers, micro_batches, sizes)
        passing = frozenset(np.unique(buffers[begin : begin + number * period]).tolist())
        # A micro-batch of -1 stands for none.
        names = buffers.astype(np.int64) << _BITS
        names += micro_batches + 1
        return cls(rows["time"][chosen], names, sizes, begin, period, number, passing)


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
    allocated: int = 0
    peak: int = 0
    growth: list[tuple[int, int]] = field(default_factory=list)

    def run(self) -> ReservedMemory:
        outside = [self.account.index("buffer", name) for name in OUTSIDE]
        inside = np.flatnonzero(~np.isin(self.account["buffer"], outside))
        held, late = _held(self.account, inside)
        moves = _Moves.of(self.account, inside[~(held | late)], self.steps)
        self._hold(inside[held])
        self._through(moves)
        self._hold(inside[late])
        self.growth = [(0, self.allocator.reserved)]
        self.peak = self.allocated
        self._through(moves)
        times, levels = np.array(self.growth, dtype=np.int64).T
        return ReservedMemory(self.peak, self.allocator.reserved, times, levels)

    def _hold(self, rows: Ints) -> None:
        """Allocates what is never released."""
        allocator, asked = self.allocator, self.account["bytes"][rows]
        pools = allocator.pools_of(asked)
        sizes = allocator.rounded(asked, pools)
        for number, pool in enumerate(allocator.pools):
            # Nobody asks for these names again.
            names, own = -1 - rows[pools == number], sizes[pools == number]
            pool.replay(names.tolist(), own.tolist())
        self.allocated += int(sizes.sum())

    def _through(self, moves: _Moves) -> None:
        """Goes through the rows, and jumps over periods that change nothing any more."""
        end = moves.begin + moves.count * moves.period
        self._rows(moves, 0, moves.begin)
        shift, calm = 0, 0
        for start in range(moves.begin, end, moves.period or 1):
            known = self.allocator.reserved
            before = self._alive(moves) if calm >= STEADY - 1 else set()
            self._rows(moves, start, start + moves.period)
            calm = calm + 1 if self.allocator.reserved == known else 0
            left = (end - start) // moves.period - 1
            # What others keep of earlier micro-batches, as other chunks do, would not go on with these.
            alike = calm >= STEADY and self._alive(moves) == {name + 1 for name in before}
            if alike and left > 0:
                shift = left
                break
        if shift:
            self._rename(moves.passing, shift)
        self._rows(moves, end, len(moves.sizes))

    def _alive(self, moves: _Moves) -> set[int]:
        """The names of what is alive of passing buffers."""
        return {
            name for pool in self.allocator.pools for name in pool.blocks if name >> _BITS in moves.passing
        }

    def _rename(self, passing: frozenset[int], shift: int) -> None:
        """What is alive of some buffers as if so many micro-batches had passed."""

        def later(name: int) -> int:
            return name + shift if name >> _BITS in passing else name

        for pool in self.allocator.pools:
            pool.blocks = {later(name): block for name, block in pool.blocks.items()}
            pool.later = {later(name): blocks for name, blocks in pool.later.items()}

    def _rows(self, moves: _Moves, begin: int, end: int) -> None:
        if begin == end:
            return
        pools = self.allocator.pools_of(moves.sizes[begin:end])
        sizes = self.allocator.rounded(moves.sizes[begin:end], pools)
        level = self.allocator.reserved
        grown: list[tuple[int, int]] = []
        for number, pool in enumerate(self.allocator.pools):
            rows = np.flatnonzero(pools == number)
            more = pool.replay(moves.names[begin + rows].tolist(), sizes[rows].tolist())
            grown += [(int(rows[row]), size) for row, size in more]
        for row, size in sorted(grown):
            level += size
            self.growth.append((int(moves.times[begin + row]), level))
        allocated = self.allocated + np.cumsum(sizes)
        self.peak = max(self.peak, int(allocated.max()))
        self.allocated = int(allocated[-1])


def _held(account: Table, inside: Ints) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which rows are of what is never released: from the start, and from the first update on."""
    buffers, micro_batches, sizes = (account[name][inside] for name in ("buffer", "micro_batch", "bytes"))
    width = int(micro_batches.max(initial=0)) + 2
    keys = buffers * np.int64(width) + micro_batches + 1
    released = np.zeros(len(account.names["buffer"]) * width, dtype=np.bool_)
    released[keys[sizes < 0]] = True
    held = (sizes > 0) & ~released[keys]
    late = held & (account["category"][inside] == account.index("category", Category.OPTIMIZER))
    names = account.names["buffer"]
    late[late] = [not names[buffer].endswith(MASTER) for buffer in buffers[late].tolist()]
    return held & ~late, late
