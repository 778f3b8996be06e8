"""A pool whose requests are served by machine code: on arrays, in units of all its sizes."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np
from numba.extending import overload, register_jitable

from simcluster.analysis.memory_usage.block_lists import (
    Blocks,
    Column,
    SizeRules,
    add_free,
    cut,
    drop_free,
    give_back,
    reserve,
    serve,
)
from simcluster.analysis.memory_usage.caching_allocator import POOL_CODE, Ints, Pool, PoolRules
from simcluster.machine_code import Compiler

ADDRESS_BITS = 31
"""Bits of an address in units (512 bytes: a TiB); a key has 64."""

SLICE = 2**17
"""Requests of one call: some hundredths of a second. Between calls an interrupt is noticed."""

_place: Any = numba.uintp
"""A place in an array; of other integers it would be asked whether they count from the end."""

_number: Any = numba.int64


class Keys(NamedTuple):
    """Keys in order."""

    items: Column
    """Those of free blocks, with room for more."""
    count: Column
    """One number: how many there are."""


@overload(bisect_left)
def _bisect(keys: Keys, key: int) -> Callable[[Keys, int], int]:
    def search(keys: Keys, key: int) -> int:
        items, place, left = keys.items, _place(0), _place(keys.count[0])
        while left > _place(0):
            half = (left + _place(1)) >> _place(1)
            if items[place + half - _place(1)] < key:
                place += half
            left -= half
        first: int = _number(place)
        return first

    return search


@register_jitable
def _insert(items: Column, place: int, count: int, item: int) -> None:
    last, first = _place(count), _place(place)
    while last > first:
        items[last] = items[last - _place(1)]
        last -= _place(1)
    items[first] = item


@register_jitable
def _remove(items: Column, place: int, count: int) -> None:
    """The last of them stays where it was, too."""
    for other in range(_place(place), _place(count - 1)):
        items[other] = items[other + _place(1)]


@overload(add_free)
def _add_free(keys: Keys, free: Column, key: int, block: int) -> Callable[..., Any]:
    def add(keys: Keys, free: Column, key: int, block: int) -> None:
        place, count = bisect_left(keys, key), keys.count[0]
        _insert(keys.items, place, count, key)
        _insert(free, place, count, block)
        keys.count[0] = count + 1

    return add


@overload(drop_free)
def _drop_free(keys: Keys, free: Column, place: int) -> Callable[..., Any]:
    def drop(keys: Keys, free: Column, place: int) -> Any:
        block, count = free[place], keys.count[0]
        _remove(keys.items, place, count)
        _remove(free, place, count)
        free[count - 1] = 0
        keys.count[0] = count - 1
        return block

    return drop


def _blocks(columns: Any, taken: Ints, totals: Ints, count: Ints) -> Blocks:
    lengths, starts, before, after, idle, later, keys, free = columns
    return Blocks(lengths, starts, before, after, idle, later, taken, totals, Keys(keys, count), free)


def _none(*shape: int) -> Ints:
    return np.zeros(shape, dtype=np.int64)


for function in (cut, give_back, reserve):
    register_jitable(function)

_compiler = Compiler(
    POOL_CODE,
    {
        "SizeRules": SizeRules(0, 0, 0, 0, 0, False),
        "Blocks": _blocks(_none(8, 1), _none(1), _none(1), _none(1)),
        "Column": _none(1),
    },
    "compiling the allocator: some 2 s",
)
_serve = _compiler.compiled_for_python(serve)
POOL_CODE.mark_ready()


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
