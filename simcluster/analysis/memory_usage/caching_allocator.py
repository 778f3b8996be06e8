"""A caching allocator, as that of PyTorch: the memory that it reserves for allocations and releases.

It reserves segments of the device's memory, cuts blocks from them, and keeps what is released for later
requests: best fit, neighbours joined, segments never given back. What it reserves beyond what is allocated at
its peak is the price of fragments and of rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from simcluster.analysis.memory_usage.block_lists import TOP, USED, Blocks, SizeRules, serve
from simcluster.deferred_dataclass import dataclass
from simcluster.machine_code import CompiledCode

Ints = NDArray[np.int64]

ADDRESS_BITS = 56
"""Bits of an address in bytes; Python's numbers have room for sizes above them."""

_HERE = Path(__file__).parent

POOL_CODE = CompiledCode(
    "allocator",
    (_HERE / "block_lists.py", _HERE / "compiled_pool.py", _HERE / "pool_overloads.py"),
    "simcluster.analysis.memory_usage.compiled_pool",
    seconds=2,
    extension="simcluster.analysis.memory_usage.pool_overloads",
)
"""Compiled pools."""


@dataclass(frozen=True, slots=True)
class PoolRules:
    """Sizes of a pool in bytes.

    Requests are rounded up to multiples of ``rounded``. Those of up to ``largest`` are its; where no free
    block fits, it reserves ``segment``, or for requests of ``own_segment`` and more their size rounded up to
    a multiple of ``granule``. A block is cut where more than ``remainder`` is left. An ``expandable`` pool
    grows in one piece, by ``segment`` at a time, at its end.
    """

    largest: float
    rounded: int
    segment: int
    own_segment: float
    granule: int
    remainder: int
    expandable: bool = False

    def in_units(self, unit: int, address_bits: int) -> SizeRules:
        """The same for sizes in units, of which segments and granules are multiples."""
        own = math.ceil(min(self.own_segment, 2.0**62) / unit)
        segment, granule, remainder = (size // unit for size in (self.segment, self.granule, self.remainder))
        return SizeRules(address_bits, segment, own, granule, remainder, self.expandable)


class Pool:
    """A pool with its free blocks, and those that are taken, by names: numbers from 0 on."""

    unit = 1
    """Bytes in which it reckons."""
    size_rules: SizeRules
    """How it serves requests."""
    blocks: Blocks
    """What it has reserved."""

    def __init__(self, rules: PoolRules, num_names: int) -> None:
        self.size_rules = rules.in_units(1, ADDRESS_BITS)
        largest = 1 << (2 * ADDRESS_BITS)
        self.blocks = Blocks([0], [0], [0], [0], [0], [0], [0] * num_names, [0] * 3, [largest], [0])

    @property
    def reserved(self) -> int:
        """Bytes of all segments."""
        return int(self.blocks.totals[TOP]) * self.unit

    @property
    def _num_used(self) -> int:
        return int(self.blocks.totals[USED])

    def replay(self, names: Ints, sizes: Ints) -> list[tuple[int, int]]:
        """Serves requests (rounded sizes) and takes back (sizes below zero), in order, by name: what has been
        there longest under it. Says at which of them it reserved more, and how much.
        """
        self._make_room(len(sizes))
        known, grown = self.reserved, [0] * len(sizes)
        if not serve(self.size_rules, self.blocks, names.tolist(), sizes.tolist(), grown):
            raise OverflowError
        if self.reserved == known:
            return []
        return [(row, more) for row, more in enumerate(grown) if more]

    def _make_room(self, num_requests: int) -> None:
        """Each may cut a block, and reserve one."""
        missing = self._num_used + 2 * num_requests + 1 - len(self.blocks.lengths)
        for column in self.blocks[:6] if missing > 0 else ():
            column.extend([0] * missing)

    def rename(self, names: Ints, others: Ints) -> None:
        """Gives what was taken under some names other ones, which are not in use."""
        taken = self.blocks.taken
        kept = [taken[name] for name in names]
        for name in names:
            taken[name] = 0
        for name, block in zip(others, kept, strict=True):
            taken[name] = block


@dataclass(frozen=True)
class CachingAllocator:
    """Pools for small and large requests, by the largest request, ascending."""

    rules: Sequence[PoolRules]
    pools: Sequence[Pool]

    @classmethod
    def of(cls, rules: Sequence[PoolRules], num_names: int, pool: type[Pool] = Pool) -> CachingAllocator:
        """An allocator that has reserved nothing; ``pool`` is what serves its requests."""
        return cls(rules, [pool(own, num_names) for own in rules])

    @property
    def reserved(self) -> int:
        """Bytes that all pools have reserved."""
        return sum(pool.reserved for pool in self.pools)

    def pools_of(self, sizes: Ints) -> Ints:
        """The pool of every request, and of what is released (sizes below zero)."""
        sizes, pools = np.abs(sizes), np.zeros(len(sizes), dtype=np.int64)
        for rules in self.rules[:-1]:
            pools += sizes > rules.largest
        return pools

    def rounded(self, sizes: Ints, pools: Ints) -> Ints:
        """Sizes as these pools serve them."""
        units = np.array([rules.rounded for rules in self.rules], dtype=np.int64)[pools]
        return np.asarray(-(-np.abs(sizes) // units) * units * np.sign(sizes))
