"""What Numba has to know of a pool: the free blocks in order are arrays, where Python has lists."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Any

import numba
from numba.extending import overload, register_jitable

from simcluster.analysis.memory_usage.block_lists import Column, add_free, drop_free
from simcluster.analysis.memory_usage.caching_allocator import Keys

_place: Any = numba.uintp
"""A place in an array; of other integers it would be asked whether they count from the end."""

_number: Any = numba.int64


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
