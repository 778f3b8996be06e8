"""A replay of a class's allocations through a caching allocator: what is reserved, and what is in use."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from simcluster.analysis.memory_usage.allocation_log import OUTSIDE
from simcluster.analysis.memory_usage.block_lists import PoolRules
from simcluster.analysis.memory_usage.caching_allocator import POOL_CODE, CachingAllocator
from simcluster.deferred_dataclass import dataclass
from simcluster.number_arrays import Ints
from simcluster.program import Category
from simcluster.trace import Table

STEADY = 4
"""After so many equal micro-batches without a new segment, later ones are taken to reserve none either."""

ROW = 1e-6
"""Seconds that going through a row of an account takes on lists; less where micro-batches repeat."""

MASTER = ".master"
"""What the names of master copies end with: frameworks make them with the model, other states later."""


@dataclass(frozen=True)
class ReservedMemory:
    """The memory that an allocator holds for a class, in bytes.

    ``allocated`` and ``reserved`` are their peaks; sizes are rounded as the allocator rounds them. ``growth``
    says when more was reserved in the last pass through the steps (ns), and how much from then on.
    """

    allocated: int
    reserved: int
    growth: Sequence[tuple[int, int]]


def replay_allocator(account: Table, rules: Sequence[PoolRules], steps: int = 1) -> ReservedMemory:
    """The memory that a class reserves: its allocations, in order, through an allocator with these pools.

    What it holds all along comes first, in the order of the account, but for the moments of the optimizer:
    frameworks make them in the first update, when the blocks of a whole step are already there. So the step
    is gone through twice, and of ``steps`` that are alike only one. Where micro-batches repeat what those
    before them did, and ``STEADY`` of them have made the allocator reserve nothing, the others are taken to
    do the same. Buffers that no allocator of a framework knows are left out.
    """
    if POOL_CODE.pays(len(account) * ROW):
        with suppress(OverflowError):  # more memory than its addresses reach
            return _Replay.of(account, rules, steps, compiled=True).run()
    return _Replay.of(account, rules, steps, compiled=False).run()


@dataclass(frozen=True)
class _Names:
    """Numbers for the buffers of a class, of every micro-batch: that of the next one is one more."""

    width: int
    """Numbers of one buffer; the last is of none, so that neighbours never meet."""
    count: int
    """Numbers of all buffers."""
    rows: Ints
    """By row of an account, the number of what it allocates or releases."""

    @classmethod
    def of(cls, account: Table) -> _Names:
        """The names in an account. A micro-batch of -1 stands for none."""
        buffers, micro_batches = account["buffer"], account["micro_batch"]
        known = np.zeros(len(account.names["buffer"]), dtype=np.int64)
        known[buffers] = 1
        width = int(micro_batches.max(initial=0)) + 3
        names = ((np.cumsum(known) - known) * width + 1)[buffers]
        names += micro_batches
        return cls(width, int(known.sum()) * width, names)


@dataclass(frozen=True)
class _Moves:
    """Allocations and releases in order: their times, names and sizes.

    From row ``begin`` on, ``count`` periods of ``period`` rows are alike, each one micro-batch later.
    ``alive`` has the names that are taken when they begin, of the buffers that occur in them, if every period
    leaves the same ones one micro-batch later: what others keep of earlier micro-batches, as other chunks
    do, would not go on with these.
    """

    times: Ints
    names: Ints
    sizes: Ints
    begin: int
    period: int
    count: int
    alive: Ints | None

    @classmethod
    def of(cls, times: Ints, names: Ints, sizes: Ints, known: _Names) -> _Moves:
        """These moves with what repeats in them."""
        begin, period, count = _periods(names, sizes)
        alive = _alive(names, sizes, begin, period, known) if count else None
        return cls(times, names, sizes, begin, period, count, alive)


def _periods(names: Ints, sizes: Ints) -> tuple[int, int, int]:
    """(first row, rows, number) of the periods around the middle that differ in their micro-batch only."""
    if not len(names):
        return 0, 0, 0
    middle = len(names) // 2
    following = np.flatnonzero(names == names[middle] + 1)
    following = following[sizes[following] == sizes[middle]]
    if not len(following) or following[0] <= middle:
        return 0, 0, 0
    period = int(following[0]) - middle
    if sizes[middle : middle + period].sum():  # more is held from one to the next
        return 0, 0, 0
    other = np.flatnonzero((names[period:] - names[:-period] != 1) | (sizes[period:] != sizes[:-period]))
    after = int(np.searchsorted(other, middle))
    begin = int(other[after - 1]) + 1 if after else 0
    end = int(other[after]) + period if after < len(other) else len(names)
    return begin, period, (end - begin) // period


def _alive(names: Ints, sizes: Ints, begin: int, period: int, known: _Names) -> Ints | None:
    """What ``_Moves`` says of it; None, too, if a step leaves something behind."""
    if 2 * np.count_nonzero(sizes > 0) != len(sizes):
        return None
    passing = np.zeros(known.count // known.width, dtype=np.bool_)
    passing[names[begin : begin + period] // known.width] = True
    taken = np.zeros(known.count, dtype=np.int64)
    np.add.at(taken, names[:begin], np.sign(sizes[:begin]))
    taken.reshape(-1, known.width)[~passing] = 0
    alive = np.flatnonzero(taken)
    over = taken.copy()
    np.add.at(over, names[begin : begin + period], np.sign(sizes[begin : begin + period]))
    return alive if np.array_equal(over[1:], taken[:-1]) and not over[0] else None


@dataclass
class _Replay:
    account: Table
    names: _Names
    allocator: CachingAllocator
    steps: int
    allocated: int = 0
    peak: int = 0
    growth: list[tuple[int, int]] = field(default_factory=list)

    @classmethod
    def of(cls, account: Table, rules: Sequence[PoolRules], steps: int, *, compiled: bool) -> _Replay:
        """A replay that begins."""
        names = _Names.of(account)
        # What is never released has names of its own, after the others.
        allocator = CachingAllocator.of(rules, names.count + len(names.rows), compiled=compiled)
        return cls(account, names, allocator, steps)

    def run(self) -> ReservedMemory:
        """Goes through the account."""
        held = self._held()
        moves, outside = self._moves(held), [self.account.index("buffer", name) for name in OUTSIDE]
        held = held[~np.isin(self.account["buffer"][held], outside)]
        late = self._late(held)
        self._hold(held[~late])
        self._through(moves)
        self._hold(held[late])
        self.growth = [(0, self.allocator.reserved)]
        self.peak = self.allocated
        self._through(moves)
        return ReservedMemory(self.peak, self.allocator.reserved, self.growth)

    def _held(self) -> Ints:
        """Rows of what is never released."""
        names, sizes = self.names.rows, self.account["bytes"]
        released = np.zeros(self.names.count, dtype=np.bool_)
        released[np.compress(sizes < 0, names)] = True
        return np.flatnonzero(~released[names])

    def _late(self, held: Ints) -> NDArray[np.bool_]:
        """Which of what is held is there from the first update on, not from the start."""
        names = self.account.names["buffer"]
        late = self.account["category"][held] == self.account.index("category", Category.OPTIMIZER)
        buffers = self.account["buffer"][held[late]].tolist()
        late[late] = [not names[buffer].endswith(MASTER) for buffer in buffers]
        return np.asarray(late)

    def _moves(self, held: Ints) -> _Moves:
        """All but what is held, or of several steps those of one, if these do not overlap."""
        # What is held comes first but for few rows.
        end = int(held[-1]) + 1 if len(held) else 0
        others = np.delete(np.arange(end), held)
        times, names, sizes = (
            np.concatenate([column[others], column[end:]])
            for column in (self.account["time"], self.names.rows, self.account["bytes"])
        )
        count = len(sizes) // self.steps
        if self.steps == 1 or len(sizes) % self.steps or sizes[:count].sum():
            count = len(sizes)
        return _Moves.of(times[:count], names[:count], sizes[:count], self.names)

    def _hold(self, chosen: Ints) -> None:
        """Allocates what is never released."""
        sizes, _ = self.allocator.replay(self.names.count + chosen, self.account["bytes"][chosen])
        self.allocated += int(sizes.sum())

    def _through(self, moves: _Moves) -> None:
        """Goes through the rows, and jumps over periods that change nothing any more."""
        if moves.alive is None:
            self._rows(moves, 0, len(moves.sizes))
            return
        self._rows(moves, 0, moves.begin)
        calm, done = 0, 0
        while done < moves.count and calm < STEADY:
            known, start = self.allocator.reserved, moves.begin + done * moves.period
            self._rows(moves, start, start + moves.period)
            calm = calm + 1 if self.allocator.reserved == known else 0
            done += 1
        for pool in self.allocator.pools if done < moves.count else ():
            pool.rename(moves.alive + done, moves.alive + moves.count)
        self._rows(moves, moves.begin + moves.count * moves.period, len(moves.sizes))

    def _rows(self, moves: _Moves, begin: int, end: int) -> None:
        if begin == end:
            return
        level = self.allocator.reserved
        sizes, growth = self.allocator.replay(moves.names[begin:end], moves.sizes[begin:end])
        for row, more in growth:
            level += more
            self.growth.append((int(moves.times[begin + row]), level))
        allocated = self.allocated + np.cumsum(sizes)
        self.peak = max(self.peak, int(allocated.max()))
        self.allocated = int(allocated[-1])
