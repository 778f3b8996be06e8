"""A replay of a class's allocations through a caching allocator: when how much is reserved."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from simcluster.analysis.memory_usage.allocation_log import OUTSIDE
from simcluster.analysis.memory_usage.block_lists import PoolRules
from simcluster.analysis.memory_usage.caching_allocator import POOL_CODE, CachingAllocator, PoolRequests
from simcluster.number_arrays import Flags, Ints
from simcluster.program import Category
from simcluster.trace import Table

STEADY = 4
"""After so many equal micro-batches without a new segment, later ones are taken to reserve none either."""

ROW = 1e-6
"""Seconds that going through a row of an account takes on lists; less where micro-batches repeat."""

MASTER = ".master"
"""What the names of master copies end with: frameworks make them with the model, other states later."""


def replay_allocator(account: Table, rules: Sequence[PoolRules], steps: int = 1) -> list[tuple[int, int]]:
    """When more memory is reserved for a class (ns), and how much from then on in bytes, from time 0 on: its
    allocations, in order, through an allocator with these pools.

    What it holds all along comes first, in the order of the account, but for the moments of the optimizer:
    frameworks make them in the first update, when the blocks of a whole step are already there. So the step
    is gone through twice, the second time is told, and of ``steps`` that are alike only one. Where
    micro-batches repeat what those before them did, and ``STEADY`` of them have made the allocator reserve
    nothing, the others are taken to do the same. Buffers that no allocator of a framework knows are left out.
    """
    if POOL_CODE.pays(len(account) * ROW):
        with suppress(OverflowError):  # more memory than its addresses reach
            return _Replay(account, rules, steps, compiled=True).growth()
    return _Replay(account, rules, steps, compiled=False).growth()


class _Moves(NamedTuple):
    """Allocations and releases in order: their names and sizes, and how many of them are before each of the
    rows of the account that are left out.
    """

    before: Ints
    names: Ints
    sizes: Ints


class _Periods(NamedTuple):
    """From row ``begin`` of moves on, ``repeats`` periods of so many ``rows`` differ in micro-batches only.

    ``alive`` has the names that are taken when they begin, of the buffers that occur in them. Every period
    leaves the same ones one micro-batch later: what others keep of earlier micro-batches, as other chunks
    do, would not go on with these.
    """

    begin: int
    rows: int
    repeats: int
    alive: Ints


class _Replay:
    """The rows of an account by number of what they allocate or release: there is one for every buffer of
    every micro-batch, that of the next micro-batch being one more.
    """

    def __init__(self, account: Table, rules: Sequence[PoolRules], steps: int, *, compiled: bool) -> None:
        self.account, self.steps = account, steps
        buffers, micro_batches = account["buffer"], account["micro_batch"]
        known = np.bincount(buffers) > 0
        # A micro-batch of -1 stands for none. The last number of a buffer is of none, so that neighbours
        # never meet.
        self.width = int(micro_batches.max(initial=0)) + 3
        self.count = int(known.sum()) * self.width
        self.names = np.take((np.cumsum(known) - known) * self.width + 1, buffers)
        self.names += micro_batches
        # What is never released has names of its own, after the others.
        self.allocator = CachingAllocator(rules, self.count + len(account), compiled=compiled)
        self.told: list[tuple[int, int]] = []
        self.asked: dict[tuple[int, int], list[PoolRequests]] = {}

    def growth(self) -> list[tuple[int, int]]:
        """Goes through the account: when how much is reserved from then on."""
        held = self._held()
        moves, outside = self._moves(held), [self.account.index("buffer", name) for name in OUTSIDE]
        periods = self._periods(moves)
        held = held[~np.isin(self.account["buffer"][held], outside)]
        late = self._late(held)
        self._hold(held[~late])
        self._through(moves, periods)
        self._hold(held[late])
        self.told, start = [], self.allocator.reserved
        self._through(moves, periods)
        rows, levels = np.array(self.told, dtype=np.int64).reshape(-1, 2).T
        rows += np.searchsorted(moves.before, rows, side="right")
        times = self.account["time"][rows].tolist()
        return [(0, start), *zip(times, levels.tolist(), strict=True)]

    def _held(self) -> Ints:
        """Rows of what is never released."""
        released = np.zeros(self.count, dtype=np.bool_)
        released[self.names.take(np.flatnonzero(self.account["bytes"] < 0))] = True
        return np.flatnonzero(~released.take(self.names))

    def _late(self, held: Ints) -> Flags:
        """Which of what is held is there from the first update on, not from the start."""
        names = self.account.names["buffer"]
        late = self.account["category"][held] == self.account.index("category", Category.OPTIMIZER)
        buffers = self.account["buffer"][held[late]].tolist()
        late[late] = [not names[buffer].endswith(MASTER) for buffer in buffers]
        return np.asarray(late)

    def _moves(self, held: Ints) -> _Moves:
        """All but what is held, or of several steps those of one, if these do not overlap."""
        moved = np.ones(len(self.names), dtype=np.bool_)
        moved[held] = False
        before = held - np.arange(len(held))
        moves = _Moves(before, self.names[moved], self.account["bytes"][moved])
        count = len(moves.sizes) // self.steps
        if len(moves.sizes) % self.steps or moves.sizes[:count].sum():
            return moves
        return _Moves(before, moves.names[:count], moves.sizes[:count])

    def _periods(self, moves: _Moves) -> _Periods | None:
        """The periods around the middle; None if there are none, or if a step leaves something behind."""
        _, names, sizes = moves
        middle = len(names) // 2
        following = np.flatnonzero(names == names[middle : middle + 1] + 1)
        following = following[sizes[following] == sizes[middle : middle + 1]]
        if not len(following) or following[0] <= middle or 2 * np.count_nonzero(sizes > 0) != len(sizes):
            return None
        rows = int(following[0]) - middle
        if sizes[middle : middle + rows].sum():  # more is held from one to the next
            return None
        other = np.flatnonzero((names[rows:] - names[:-rows] != 1) | (sizes[rows:] != sizes[:-rows]))
        after = int(np.searchsorted(other, middle))
        begin = int(other[after - 1]) + 1 if after else 0
        end = int(other[after]) + rows if after < len(other) else len(names)
        passing = np.zeros(self.count // self.width, dtype=np.bool_)
        passing[names[begin : begin + rows] // self.width] = True
        early = np.flatnonzero(passing.take(names[:begin] // self.width))
        taken = np.zeros(self.count, dtype=np.int64)
        np.add.at(taken, names[early], np.sign(sizes[early]))
        over = taken.copy()
        np.add.at(over, names[begin : begin + rows], np.sign(sizes[begin : begin + rows]))
        if over[0] or not np.array_equal(over[1:], taken[:-1]):
            return None
        return _Periods(begin, rows, (end - begin) // rows, np.flatnonzero(taken))

    def _hold(self, chosen: Ints) -> None:
        """Allocates what is never released."""
        self.allocator.replay(self.count + chosen, self.account["bytes"][chosen])

    def _through(self, moves: _Moves, periods: _Periods | None) -> None:
        """Goes through the rows, and jumps over periods that change nothing any more."""
        if periods is None:
            self._rows(moves, 0, len(moves.sizes))
            return
        begin, rows, count, alive = periods
        first, last, done, calm = 0, begin - 1, 0, 0
        while done < count and calm < STEADY:
            # So many more are gone through whatever they do, at first with what is before them.
            done = min(count, done + STEADY - calm)
            end = begin + done * rows
            last = max(last, self._rows(moves, first, end))
            first, calm = end, (end - 1 - last) // rows
        for pool in self.allocator.pools if done < count else ():
            pool.rename(alive + done, alive + count)
        self._rows(moves, begin + count * rows, len(moves.sizes))

    def _rows(self, moves: _Moves, begin: int, end: int) -> int:
        """Goes through some rows, and says which was the last to make more be reserved; -1: none."""
        level, last = self.allocator.reserved, -1
        if (begin, end) not in self.asked:
            self.asked[begin, end] = self.allocator.requests(moves.names[begin:end], moves.sizes[begin:end])
        for row, more in self.allocator.serve(self.asked[begin, end]):
            level, last = level + more, begin + row
            self.told.append((last, level))
        return last
