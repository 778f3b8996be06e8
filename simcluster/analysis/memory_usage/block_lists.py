"""The blocks of a pool and what requests do to them: best fit, cut, joined with free neighbours.

One source: it runs on Python's lists, or as machine code on arrays (``pool_overloads``). Blocks have numbers
from 1 on; those of a segment are linked in the order of their addresses. 0 is no block, and never free.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, NamedTuple, TypeAlias

Column: TypeAlias = Any
"""A list or an array of integers."""

SPARE, USED, TOP = range(3)
"""Places in ``totals``: the first number that is spare, the highest number so far, and where the next segment
begins, which is how much has been reserved.
"""


EVERY_SIZE = 2**62
"""A size that no request has."""


class PoolRules(NamedTuple):
    """Sizes of a pool in bytes.

    Requests are rounded up to multiples of ``rounded``. Those of up to ``largest`` are its; where no free
    block fits, it reserves ``segment``, or for requests of ``own_segment`` and more their size rounded up to
    a multiple of ``granule``. A block is cut where more than ``remainder`` is left. An ``expandable`` pool
    grows in one piece, by ``segment`` at a time, at its end.
    """

    largest: int
    rounded: int
    segment: int
    own_segment: int
    granule: int
    remainder: int
    expandable: bool = False

    def in_units(self, unit: int) -> PoolRules:
        """Segments, granules and the remainder in units, of which rounded sizes are multiples, too."""
        segment, granule, remainder = (size // unit for size in (self.segment, self.granule, self.remainder))
        own = -(-self.own_segment // unit)
        return self._replace(segment=segment, own_segment=own, granule=granule, remainder=remainder)


class Blocks(NamedTuple):
    """Columns by the number of a block; requests by name; free blocks in order."""

    keys: Column
    """Free blocks as keys, the smallest first, of equal ones that with the lowest address."""
    free: Column
    """Their numbers in the same order, and a 0 after them. As arrays both have in front how many they are."""
    lengths: Column
    """The size of a block."""
    starts: Column
    """Its address."""
    before: Column
    """The block before it in its segment; of 0 the last one of an expandable pool."""
    after: Column
    """The block after it; of a number that is spare the next such number."""
    idle: Column
    """1 if it is free; of a number that is spare nothing is asked."""
    later: Column
    """The block that was taken after it under the same name."""
    taken: Column
    """By name the block that was taken first."""
    totals: Column
    """What there is once: ``SPARE``, ``USED`` and ``TOP``."""


def serve(bits: int, rules: PoolRules, blocks: Blocks, names: Column, sizes: Column, grown: Column) -> bool:
    """Serves requests (rounded sizes) and takes back (sizes below zero), in order, by name: what has been
    there longest under it.

    In keys a size is above an address, which has so many ``bits``. ``grown`` is told by row how much more was
    reserved. False if an address has more bits; then nothing more is served.
    """
    remainder, lengths, idle = rules.remainder, blocks.lengths, blocks.idle
    later, taken, keys, free = blocks.later, blocks.taken, blocks.keys, blocks.free
    for row, (name, size) in enumerate(zip(names, sizes)):  # noqa: B905 - Numba knows no strict
        if size < 0:
            block = taken[name]
            taken[name] = later[block]
            later[block] = 0
            give_back(bits, blocks, block)
            continue
        place = bisect_left(keys, size << bits)
        if not free[place]:
            grown[row] = reserve(bits, rules, blocks, size)
            if blocks.totals[TOP] >> bits:
                return False
            place = bisect_left(keys, size << bits)
        block = drop_free(keys, free, place)
        idle[block] = 0
        if lengths[block] - size > remainder:
            cut(bits, blocks, block, size)
        first = taken[name]
        if first:
            while later[first]:
                first = later[first]
            later[first] = block
        else:
            taken[name] = block
    return True


def cut(bits: int, blocks: Blocks, block: int, size: int) -> None:
    """Cuts a block that is taken; the rest is another one, and free."""
    keys, free, lengths, starts, before, after, idle, _, _, totals = blocks
    rest = totals[SPARE]
    if rest:
        totals[SPARE] = after[rest]
    else:
        totals[USED] += 1
        rest = totals[USED]
    left, start, following = lengths[block] - size, starts[block] + size, after[block]
    lengths[block], lengths[rest] = size, left
    starts[rest] = start
    before[rest], after[rest] = block, following
    after[block] = before[following] = rest
    idle[rest] = 1
    add_free(keys, free, left << bits | start, rest)


def give_back(bits: int, blocks: Blocks, block: int) -> None:
    """Makes a block free, joined with its free neighbours; one number stays, others are spare."""
    keys, free, lengths, starts, before, after, idle, _, _, totals = blocks
    first, end = before[block], after[block]
    if idle[first]:
        drop_free(keys, free, bisect_left(keys, lengths[first] << bits | starts[first]))
        lengths[first] += lengths[block]
        after[block], totals[SPARE] = totals[SPARE], block
    else:
        first = block
    if idle[end]:
        drop_free(keys, free, bisect_left(keys, lengths[end] << bits | starts[end]))
        lengths[first] += lengths[end]
        block, end = end, after[end]
        after[block], totals[SPARE] = totals[SPARE], block
    after[first], before[end] = end, first
    idle[first] = 1
    add_free(keys, free, lengths[first] << bits | starts[first], first)


def add_free(keys: Column, free: Column, key: int, block: int) -> None:
    """Adds a block to the free ones."""
    place = bisect_left(keys, key)
    keys.insert(place, key)
    free.insert(place, block)


def drop_free(keys: Column, free: Column, place: int) -> int:
    """Removes a block from the free ones."""
    keys.pop(place)
    block: int = free.pop(place)
    return block


def reserve(bits: int, rules: PoolRules, blocks: Blocks, size: int) -> int:
    """Reserves room for a size: a segment, or more at the end of an expandable pool; how much."""
    top, last = blocks.totals[TOP], 0
    if rules.expandable:
        last = blocks.before[0]
        size -= blocks.lengths[last] * blocks.idle[last]
        more = -(-size // rules.segment) * rules.segment
    elif size >= rules.own_segment:
        more = -(-size // rules.granule) * rules.granule
    else:
        more = rules.segment
    blocks.totals[TOP] = top + more
    blocks.totals[USED] += 1
    block = blocks.totals[USED]
    blocks.lengths[block], blocks.starts[block] = more, top
    blocks.before[block], blocks.after[block] = last, 0
    blocks.after[last] = blocks.before[0] = block
    give_back(bits, blocks, block)
    return int(more)
