"""A pool whose requests are served by machine code: on arrays, in units of all its sizes."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from simcluster.analysis.memory_usage.block_lists import (
    Blocks,
    Column,
    SizeRules,
    cut,
    give_back,
    reserve,
    serve,
)
from simcluster.analysis.memory_usage.caching_allocator import POOL_CODE, Ints, Pool, PoolRules

ADDRESS_BITS = 31
"""Bits of an address in units (512 bytes: a TiB); a key has 64."""

SLICE = 2**17
"""Requests of one call: some hundredths of a second. Between calls an interrupt is noticed."""


class Keys(NamedTuple):
    """Keys in order."""

    items: Column
    """Those of free blocks, with room for more."""
    count: Column
    """One number: how many there are."""


def _blocks(columns: Any, taken: Ints, totals: Ints, count: Ints) -> Blocks:
    lengths, starts, before, after, idle, later, keys, free = columns
    return Blocks(lengths, starts, before, after, idle, later, taken, totals, Keys(keys, count), free)


def _none(*shape: int) -> Ints:
    return np.zeros(shape, dtype=np.int64)


POOL_CODE.examples |= {
    "SizeRules": SizeRules(0, 0, 0, 0, 0, False),
    "Blocks": _blocks(_none(8, 1), _none(1), _none(1), _none(1)),
    "Column": _none(1),
}
for function in (cut, give_back, reserve):
    POOL_CODE.function(function)
_serve = POOL_CODE.entry(serve)


class CompiledPool(Pool):
    """A pool; OverflowError where it comes to have more addresses than its keys have room for."""

    def __init__(self, rules: PoolRules, num_names: int) -> None:
        self.unit = math.gcd(rules.rounded, rules.segment, rules.granule)
        self.columns = _none(8, 1)
        self.count = _none(1)
        self.size_rules = rules.in_units(self.unit, ADDRESS_BITS)
        self.blocks = _blocks(self.columns, _none(num_names), _none(3), self.count)

    def replay(self, names: Ints, sizes: Ints) -> list[tuple[int, int]]:
        """Serves requests, so many at a time."""
        sizes = sizes // self.unit
        if max(sizes.max(initial=0), *self.size_rules[1:4:2]) >> ADDRESS_BITS:
            raise OverflowError
        grown = _none(len(sizes))
        for first in range(0, len(sizes), SLICE):
            rows = slice(first, first + SLICE)
            self._make_room(len(sizes[rows]))
            if not _serve(self.size_rules, self.blocks, names[rows], sizes[rows], grown[rows]):
                raise OverflowError
        at = np.flatnonzero(grown)
        return list(zip(at.tolist(), (grown[at] * self.unit).tolist(), strict=True))

    def rename(self, names: Ints, others: Ints) -> None:
        """Gives what was taken under some names other ones."""
        taken = self.blocks.taken
        kept = taken[names]
        taken[names] = 0
        taken[others] = kept

    def _make_room(self, num_requests: int) -> None:
        """Each may cut a block, and reserve one."""
        size = self.columns.shape[1]
        needed = self._num_used + 2 * num_requests + 2
        if size < needed:
            more = _none(8, max(needed, 2 * size))
            more[:, : self._num_used + 1] = self.columns[:, : self._num_used + 1]
            self.columns = more
            self.blocks = _blocks(more, self.blocks.taken, self.blocks.totals, self.count)
