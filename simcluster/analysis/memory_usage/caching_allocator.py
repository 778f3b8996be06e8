"""A caching allocator, as that of PyTorch: the memory that it reserves for allocations and releases.

It reserves segments of the device's memory, cuts blocks from them, and keeps what is released for later
requests: best fit, neighbours joined, segments never given back. What it reserves beyond what is allocated at
its peak is the price of fragments and of rounding.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable
from dataclasses import dataclass, field

Span = tuple[int, int]
"""A free block: size, and where it begins."""


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


@dataclass(slots=True)
class _Pool:
    """Free blocks by size, and the borders by which neighbours are found. Segments lie apart by a gap."""

    rules: PoolRules
    free: list[Span] = field(default_factory=list)
    begins: dict[int, int] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    top: int = 0
    reserved: int = 0

    def take(self, size: int) -> Span:
        """A block of at least ``size`` bytes."""
        place = bisect_left(self.free, (size, -1))
        if place == len(self.free):
            self._reserve(size)
            place = bisect_left(self.free, (size, -1))
        have, start = self.free.pop(place)
        del self.begins[start], self.ends[start + have]
        left = have - size
        if left > self.rules.remainder:
            self._put(start + size, left)
            have = size
        return have, start

    def give(self, block: Span) -> None:
        """Takes a block back, joined with its free neighbours."""
        size, start = block
        before = self.ends.get(start)
        if before is not None:
            self._remove(before, start - before)
            start, size = before, size + start - before
        after = self.begins.get(start + size)
        if after is not None:
            self._remove(start + size, after)
            size += after
        self._put(start, size)

    def _put(self, start: int, size: int) -> None:
        insort(self.free, (size, start))
        self.begins[start] = size
        self.ends[start + size] = start

    def _remove(self, start: int, size: int) -> None:
        del self.free[bisect_left(self.free, (size, start))]
        del self.begins[start], self.ends[start + size]

    def _reserve(self, size: int) -> None:
        """A segment with room for ``size`` bytes, free."""
        rules = self.rules
        if rules.expandable:
            self._grow(size)
            return
        whole = -(-size // rules.granule) * rules.granule if size >= rules.own_segment else rules.segment
        self.reserved += whole
        self._put(self.top, whole)
        self.top += whole + 1  # segments are no neighbours

    def _grow(self, size: int) -> None:
        """More pages at the end, joined with what is free there."""
        free = self.ends.get(self.top)
        have = 0 if free is None else self.top - free
        more = -(-(size - have) // self.rules.segment) * self.rules.segment
        self.reserved += more
        self.top += more
        self.give((more, self.top - more))


@dataclass(slots=True)
class CachingAllocator:
    """Pools for small and large requests: what is allocated, rounded up, and what is reserved, in bytes."""

    pools: tuple[_Pool, ...]
    allocated: int = 0
    reserved: int = 0
    blocks: dict[Hashable, list[tuple[_Pool, Span, int]]] = field(default_factory=dict)

    @classmethod
    def of(cls, rules: tuple[PoolRules, ...]) -> CachingAllocator:
        """An allocator that has reserved nothing; ``rules`` by the largest request, ascending."""
        return cls(tuple(_Pool(rule) for rule in rules))

    def allocate(self, name: Hashable, size: int) -> None:
        """A buffer of ``size`` bytes."""
        for pool in self.pools:
            if size <= pool.rules.largest:
                break
        rounded = -(-size // pool.rules.rounded) * pool.rules.rounded
        self.allocated += rounded
        before = pool.reserved
        self.blocks.setdefault(name, []).append((pool, pool.take(rounded), rounded))
        self.reserved += pool.reserved - before

    def release(self, name: Hashable) -> None:
        """The buffer that has been there longest under this name."""
        blocks = self.blocks[name]
        pool, block, rounded = blocks.pop(0)
        if not blocks:
            del self.blocks[name]
        self.allocated -= rounded
        pool.give(block)
