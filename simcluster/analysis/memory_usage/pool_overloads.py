"""What Numba has to know of a pool: what is free stands in arrays, where Python has lists.

The first number of such an array is how many follow, and behind these there are zeros.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Any

import numba
from numba.extending import overload, overload_method

from simcluster.analysis.memory_usage.block_lists import Column

_place: Any = numba.uintp
"""A place in an array; of other integers it would be asked whether they count from the end."""


@overload(bisect_left)
def _bisect(items: Column, item: int) -> Callable[..., Any]:
    def search(items: Column, item: int) -> Any:
        place, left = _place(1), _place(items[0])
        while left > _place(0):
            half = (left + _place(1)) >> _place(1)
            if items[place + half - _place(1)] < item:
                place += half
            left -= half
        return place

    return search


@overload_method(numba.types.Array, "insert")
def _insert(items: Column, place: int, item: int) -> Callable[..., None]:
    def insert(items: Column, place: int, item: int) -> None:
        items[0] += 1
        last = _place(items[0])
        while last > place:
            items[last] = items[last - _place(1)]
            last -= _place(1)
        items[place] = item

    return insert


@overload_method(numba.types.Array, "pop")
def _pop(items: Column, place: int) -> Callable[..., Any]:
    def pop(items: Column, place: int) -> Any:
        item, last = items[place], _place(items[0])
        for other in range(place, last):
            items[other] = items[other + _place(1)]
        items[last] = 0
        items[0] -= 1
        return item

    return pop
