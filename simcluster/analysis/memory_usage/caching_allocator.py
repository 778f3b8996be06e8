"""A caching allocator, as that of PyTorch: the memory that it reserves for allocations and releases.

It reserves segments of the device's memory, cuts blocks from them, and keeps what is released for later
requests: best fit, neighbours joined, segments never given back. What it reserves beyond what is allocated at
its peak is the price of fragments and of rounding.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

START = 56
"""Bits of a block's start; its size is above them, so that blocks are numbers in the order of their sizes."""

_STARTS = (1 << START) - 1


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


@dataclass
class Pool:
    """A pool with its free blocks, and those that are taken. Segments lie apart by a gap."""

    rules: PoolRules
    """How it serves requests."""
    free: list[int] = field(default_factory=list)
    """Free blocks, the smallest first."""
    begins: dict[int, int] = field(default_factory=dict)
    """The same by where they start."""
    ends: dict[int, int] = field(default_factory=dict)
    """The same by where they end."""
    blocks: dict[int, int] = field(default_factory=dict)
    """Blocks that are taken, by name: of each name the one that was first."""
    later: dict[int, list[int]] = field(default_factory=dict)
    """The further blocks of names that are taken more than once."""
    top: int = 0
    """Where the next segment begins."""
    reserved: int = 0
    """Bytes of all segments."""

    def replay(self, names: Iterable[int], sizes: Iterable[int]) -> list[tuple[int, int]]:
        """Serves requests (rounded sizes) and takes back (sizes below zero), in order, by name: what has been
        there longest under it. Says at which of them it reserved more, and how much.
        """
        # One loop without calls: a large run has a million of them.
        free, begins, ends, blocks, later = self.free, self.begins, self.ends, self.blocks, self.later
        remainder, grown = self.rules.remainder, []
        for row, (name, size) in enumerate(zip(names, sizes, strict=True)):
            if size > 0:
                place = bisect_left(free, size << START)
                if place == len(free):
                    grown.append((row, self._reserve(size)))
                    place = bisect_left(free, size << START)
                block = free.pop(place)
                start = block & _STARTS
                del begins[start]
                left = (block >> START) - size
                if left > remainder:
                    block = size << START | start
                    start += size
                    rest = left << START | start
                    begins[start] = ends[start + left] = rest
                    insort(free, rest)
                else:
                    del ends[start + (block >> START)]
                if name in blocks:
                    later.setdefault(name, []).append(block)
                else:
                    blocks[name] = block
                continue
            block = blocks.pop(name)
            if later and name in later:
                blocks[name] = later[name].pop(0)
                if not later[name]:
                    del later[name]
            start = block & _STARTS
            end = start + (block >> START)
            # It is joined with its free neighbours.
            if start in ends:
                before = ends.pop(start)
                del free[bisect_left(free, before)]
                start = before & _STARTS
            if end in begins:
                after = begins.pop(end)
                del free[bisect_left(free, after)]
                end += after >> START
            block = (end - start) << START | start
            begins[start] = ends[end] = block
            insort(free, block)
        return grown

    def give(self, start: int, size: int) -> None:
        """Takes a block back, joined with its free neighbours."""
        free, end = self.free, start + size
        before, after = self.ends.pop(start, 0), self.begins.pop(end, 0)
        if before:
            del free[bisect_left(free, before)]
            start = before & _STARTS
        if after:
            del free[bisect_left(free, after)]
            end += after >> START
        block = (end - start) << START | start
        self.begins[start] = self.ends[end] = block
        insort(free, block)

    def _reserve(self, size: int) -> int:
        """A segment with room for ``size`` bytes, free; an expandable pool has more pages at its end."""
        rules = self.rules
        if rules.expandable:
            free = self.ends.get(self.top, 0)
            more = -(-(size - (free >> START)) // rules.segment) * rules.segment
        elif size >= rules.own_segment:
            more = -(-size // rules.granule) * rules.granule
        else:
            more = rules.segment
        self.give(self.top, more)
        self.reserved += more
        self.top += more + (not rules.expandable)  # segments are no neighbours
        return more


@dataclass(frozen=True)
class CachingAllocator:
    """Pools for small and large requests, by the largest request, ascending."""

    pools: tuple[Pool, ...]

    @classmethod
    def of(cls, rules: Iterable[PoolRules]) -> CachingAllocator:
        """An allocator that has reserved nothing."""
        return cls(tuple(map(Pool, rules)))

    @property
    def reserved(self) -> int:
        """Bytes that all pools have reserved."""
        return sum(pool.reserved for pool in self.pools)

    def pools_of(self, sizes: Ints) -> Ints:
        """The pool of every request, and of what is released (sizes below zero)."""
        sizes, pools = np.abs(sizes), np.zeros(len(sizes), dtype=np.int64)
        for pool in self.pools[:-1]:
            pools += sizes > pool.rules.largest
        return pools

    def rounded(self, sizes: Ints, pools: Ints) -> Ints:
        """Sizes as these pools serve them."""
        units = np.array([pool.rules.rounded for pool in self.pools], dtype=np.int64)[pools]
        return np.asarray(-(-np.abs(sizes) // units) * units * np.sign(sizes))
