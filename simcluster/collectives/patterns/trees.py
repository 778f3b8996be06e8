"""Trees of units, and the steps up and down them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from simcluster.collectives.step import AlgorithmStep, Sends
from simcluster.number_arrays import Ints

ROOT = -1
"""The parent of a tree's root."""

Parents = tuple[int, ...]
"""The parent of each unit."""


@cache
def double_tree(units: int) -> tuple[Parents, ...]:
    """The parents of each unit in both trees: the second mirrors the first, or shifts it if units are odd."""
    first = single_tree(units)[0]
    if units % 2 == 0:
        second = [units - 1 - first[units - 1 - unit] for unit in range(units)]
        second[units - 1] = ROOT
    else:
        second = [(first[unit - 1] + 1) % units for unit in range(units)]
        second[1 % units] = ROOT
    return first, tuple(second)


@cache
def single_tree(units: int) -> tuple[Parents, ...]:
    """The first of the two alone."""
    return (tuple(_parent(units, unit) for unit in range(units)),)


def _parent(units: int, unit: int) -> int:
    """In-order binary tree: the odd units are leaves, unit 0 is the root."""
    if unit == 0:
        return ROOT
    bit = unit & -unit
    parent = (unit ^ bit) | (bit << 1)
    return parent if parent < units else unit ^ bit


@cache
def _levels(parents: Parents) -> tuple[int, ...]:
    """How far each unit is from the root."""
    level = np.zeros(len(parents), dtype=np.int64)
    at = np.array(parents)
    while (inner := at != ROOT).any():
        level += inner
        at = np.where(inner, np.array(parents)[at], ROOT)
    return tuple(level.tolist())


@cache
def tree_depth(trees: tuple[Parents, ...]) -> int:
    """Links from a root to the farthest unit."""
    return max(max(_levels(parents)) for parents in trees)


def tree_reduction(
    ways: Sequence[Sequence[Ints]], trees: Sequence[Parents], hops: tuple[int, int], *, streams: bool = False
) -> tuple[AlgorithmStep, AlgorithmStep]:
    """Reduction up every tree for every channel, and the result down again.

    ``ways`` are by channel and unit: the ranks from the head, which talks to other units, to the tail.
    Channel c and tree t carry chunk ``c x trees + t``. ``hops`` are those of one way. Steps stream: the way
    up behind what was before where ``streams`` says so, the way down behind the way up.
    """
    numbers = len(ways) * len(trees)
    deepest = max(way.size for channel in ways for way in channel)
    src, dst, chunk, turns = [], [], [], []
    for channel, way in enumerate(ways):
        carried = channel * len(trees) + np.arange(len(trees))
        ranks, sizes = np.concatenate(way), np.array([line.size for line in way])
        places = np.arange(ranks.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        below = np.flatnonzero(places)
        for number in carried:
            src.append(ranks[below])
            dst.append(ranks[below - 1])
            turns.append(deepest - places[below])
            chunk.append(np.full(below.size, number))
        heads = ranks[places == 0]
        for number, parents in zip(carried, trees, strict=True):
            at, levels = np.array(parents), np.array(_levels(parents))
            inner = np.flatnonzero(at != ROOT)
            src.append(heads[inner])
            dst.append(heads[at[inner]])
            turns.append(deepest + levels.max(initial=0) - levels[inner])
            chunk.append(np.full(inner.size, number))
    up = Sends(
        src=np.concatenate(src),
        dst=np.concatenate(dst),
        first=np.concatenate(chunk),
        modulus=numbers,
        turns=np.concatenate(turns),
        combine=True,
        hops=hops,
        streams=streams,
    )
    assert up.turns is not None
    down = replace(up, src=up.dst, dst=up.src, turns=-up.turns, combine=False, streams=True)
    return up, down
