"""A caching allocator, as that of PyTorch: the memory that it reserves for allocations and releases.

It reserves segments of the device's memory, cuts blocks from them, and keeps what is released for later
requests: best fit, neighbours joined, segments never given back. What it reserves beyond what is allocated at
its peak is the price of fragments and of rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from simcluster.analysis.memory_usage.block_lists import (
    TOP,
    USED,
    Blocks,
    Column,
    PoolRules,
    add_free,
    cut,
    drop_free,
    give_back,
    reserve,
    serve,
)
from simcluster.machine_code import CompiledCode
from simcluster.number_arrays import Ints

SLICE = 2**17
"""Requests of one call: hundredths of a second as machine code. Between calls an interrupt is noticed."""


_HERE, _NONE = Path(__file__).parent, np.zeros(1, dtype=np.int64)

POOL_CODE = CompiledCode(
    "allocator",
    (_HERE / "block_lists.py", Path(__file__), _HERE / "pool_overloads.py"),
    __name__,
    seconds=2,
    extension="simcluster.analysis.memory_usage.pool_overloads",
    examples={
        "int": 0,
        "PoolRules": PoolRules(0, 0, 0, 0, 0, 0),
        "Blocks": Blocks(*[_NONE] * 10),
        "Column": _NONE,
    },
    functions=[add_free, drop_free, cut, give_back, reserve],
)
"""Pools as machine code."""

_serve_compiled = POOL_CODE.entry(serve)


class Pool:
    """A pool with its free blocks, and those that are taken, by names: numbers from 0 on.

    It reckons in units of all its sizes, on lists or, ``compiled``, on arrays. OverflowError where an address
    comes to have more bits than keys have room for: 31 (512 bytes each: a TiB) in an array's 64, 56 in lists.
    """

    def __init__(self, rules: PoolRules, num_names: int, *, compiled: bool = False) -> None:
        self.unit = math.gcd(rules.rounded, rules.segment, rules.granule)
        """Bytes."""
        self.rules = rules.in_units(self.unit)
        self.compiled = compiled
        self.address_bits = 31 if compiled else 56
        sizes = int(compiled), *[1] * 7, num_names, 3
        self.blocks = Blocks._make(map(self._zeros, sizes))

    @property
    def reserved(self) -> int:
        """Bytes of all segments."""
        return int(self.blocks.totals[TOP]) * self.unit

    def replay(self, names: Ints, sizes: Ints) -> list[tuple[int, int]]:
        """Serves requests (rounded sizes) and takes back (sizes below zero), in order, by name: what has been
        there longest under it. Says at which of them it reserved more, and how much.
        """
        sizes = sizes // self.unit
        if max(sizes.max(initial=0), self.rules.segment, self.rules.granule) >> self.address_bits:
            raise OverflowError
        growth: list[tuple[int, int]] = []
        serve_rows = _serve_compiled if self.compiled else serve
        for first in range(0, len(sizes), SLICE):
            rows, known = slice(first, first + SLICE), self.reserved
            asked = self._column(names[rows]), self._column(sizes[rows])
            grown = self._zeros(len(asked[0]))
            self._make_room(len(grown))
            if not serve_rows(self.address_bits, self.rules, self.blocks, *asked, grown):
                raise OverflowError
            if self.reserved > known:
                at = np.flatnonzero(grown)
                growth += zip((first + at).tolist(), (np.take(grown, at) * self.unit).tolist(), strict=True)
        return growth

    def rename(self, names: Ints, others: Ints) -> None:
        """Gives what was taken under some names other ones, which are not in use."""
        taken = self.blocks.taken
        if self.compiled:
            taken[names], taken[others] = 0, taken[names]
            return
        kept = [taken[name] for name in names]
        for name in names:
            taken[name] = 0
        for name, block in zip(others, kept, strict=True):
            taken[name] = block

    def _make_room(self, num_requests: int) -> None:
        """Each may cut a block, and reserve one."""
        blocks, size = self.blocks, len(self.blocks.lengths)
        more = blocks.totals[USED] + 2 * num_requests + 2 - size
        if more > 0 and self.compiled:
            longer = [self._longer(column, max(more, size)) for column in blocks[:8]]
            self.blocks = Blocks._make([*longer, *blocks[8:]])
        elif more > 0:
            for column in blocks[2:8]:
                column.extend([0] * more)

    def _longer(self, column: Ints, more: int) -> Ints:
        """A column and more zeros, of which none are written before they are used."""
        longer, used = np.zeros(len(column) + more, dtype=np.int64), self.blocks.totals[USED] + 2
        longer[:used] = column[:used]
        return longer

    def _column(self, values: Ints) -> Column:
        return values if self.compiled else values.tolist()

    def _zeros(self, count: int) -> Column:
        return np.zeros(count, dtype=np.int64) if self.compiled else [0] * count


class PoolRequests(NamedTuple):
    """Requests and what is taken back of a pool: their places among those of all pools, and rounded sizes."""

    rows: Ints
    names: Ints
    sizes: Ints


class CachingAllocator:
    """Pools for small and large requests, by the largest request, ascending."""

    def __init__(self, rules: Sequence[PoolRules], num_names: int, *, compiled: bool = False) -> None:
        self.pools = [Pool(own, num_names, compiled=compiled) for own in rules]

    @property
    def reserved(self) -> int:
        """Bytes that all pools have reserved."""
        return sum(pool.reserved for pool in self.pools)

    def requests(self, names: Ints, sizes: Ints) -> list[PoolRequests]:
        """By pool the requests that go to it."""
        asked, pools = np.abs(sizes), np.zeros(len(sizes), dtype=np.int64)
        for pool in self.pools[:-1]:
            pools += asked > pool.rules.largest
        by_pool = []
        for number, pool in enumerate(self.pools):
            rows, unit = np.flatnonzero(pools == number), pool.rules.rounded
            rounded = -(-asked[rows] // unit) * unit
            by_pool.append(PoolRequests(rows, names[rows], np.where(sizes[rows] < 0, -rounded, rounded)))
        return by_pool

    def serve(self, requests: Sequence[PoolRequests]) -> list[tuple[int, int]]:
        """Serves requests and takes back, as its pools do: which of them made it reserve more, how much."""
        growth: list[tuple[int, int]] = []
        for pool, own in zip(self.pools, requests, strict=True):
            growth += [(int(own.rows[row]), more) for row, more in pool.replay(own.names, own.sizes)]
        return sorted(growth)

    def replay(self, names: Ints, sizes: Ints) -> list[tuple[int, int]]:
        """The same of requests of all pools."""
        return self.serve(self.requests(names, sizes))
