"""Patterns that algorithms are made of, among many equal groups at once.

``grid`` [m, q]: m groups of q ranks, which do the same beside one another. Position j of a group stands for
``width`` chunks from ``base + j width`` on (``base`` [m] or one number): those it owns in the end, or brings.
``between``: whether a round waits for the network (one value for a pattern).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simcluster.collectives.step import AlgorithmStep, GroupExchange, Sends
from simcluster.number_arrays import Ints


def hop_counts(rounds: int, between: bool) -> tuple[int, int]:
    """Hops of so many rounds: (inside a host, between hosts)."""
    return (0, rounds) if between else (rounds, 0)


def ring_rounds(
    grid: Ints,
    base: Ints | int,
    width: int,
    *,
    reduce: bool,
    hops: tuple[int, int],
    streams: bool = False,
) -> tuple[AlgorithmStep, ...]:
    """Q - 1 rounds around a ring: reduce-scatter or all-gather."""
    size = grid.shape[1]
    if size == 1:
        return ()
    sends = Sends(
        src=grid.ravel(),
        dst=np.roll(grid, -1, axis=1).ravel(),
        base=_each(base, grid),
        first=np.tile(np.arange(size) - reduce, len(grid)),
        modulus=size,
        advance=-1,
        width=width,
        repeat=size - 1,
        combine=reduce,
        hops=hops,
        streams=streams,
    )
    return (sends,)


def halving_rounds(
    grid: Ints, base: Ints | int, width: int, *, reduce: bool, hops: list[tuple[int, int]]
) -> tuple[AlgorithmStep, ...]:
    """Reduce-scatter by halving or all-gather by doubling, any q; ``hops`` by round of the reduction.

    In a round with skip s each rank sends to the one s places on, around the circle. The skips are q/2, q/4,
    ... 1, each rounded up, and the blocks sent are what halving left out.
    """
    size = grid.shape[1]
    rounds = []
    places = np.tile(np.arange(size), len(grid))
    for (skip, count), waiting in zip(halving_skips(size), hops, strict=True):
        rounds.append(
            Sends(
                src=grid.ravel(),
                dst=np.roll(grid, -skip, axis=1).ravel(),
                base=_each(base, grid),
                # Halving passes on what the places from rank + skip on will own; doubling what it has.
                first=places + skip if reduce else places - count + 1,
                modulus=size,
                count=count,
                width=width,
                combine=reduce,
                hops=waiting,
            )
        )
    return tuple(rounds if reduce else reversed(rounds))


def halving_skips(size: int) -> Iterator[tuple[int, int]]:
    """The skip of every round of halving, and how many blocks each rank sends in it."""
    left = size
    while left > 1:
        skip = -(-left // 2)
        yield skip, left - skip
        left = skip


def uneven_ring_rounds(
    grid: Ints, base: Ints | int, width: int, *, reduce: bool, hops: tuple[int, int]
) -> tuple[AlgorithmStep, ...]:
    """HCCL's nonuniform hierarchical ring: rounded-up log2 q rounds with skips 2^k, any q.

    Gathering goes from the largest skip d down; before it a rank has the blocks of every 2d-th rank behind
    it, and passes them all on to the rank d places on, so that both have every d-th. ``hops``: of one round.
    """
    size = grid.shape[1]
    places = np.tile(np.arange(size), len(grid))
    rounds = []
    for power in reversed(range((size - 1).bit_length())):
        skip = 1 << power
        count = (size - 1 + skip) // (2 * skip)
        to = -skip if not reduce else skip
        # Reducing runs the same backwards: what was received is now sent, to where it came from.
        first = places if not reduce else places - skip
        rounds.append(
            Sends(
                src=grid.ravel(),
                dst=np.roll(grid, to, axis=1).ravel(),
                base=_each(base, grid),
                first=first,
                modulus=size,
                count=count,
                stride=-2 * skip,
                width=width,
                combine=reduce,
                hops=hops,
            )
        )
    return tuple(reversed(rounds) if reduce else rounds)


def all_to_all_round(
    grid: Ints,
    base: Ints | int,
    width: int,
    *,
    reduce: bool,
    hops: tuple[int, int],
    streams: bool = False,
) -> tuple[AlgorithmStep, ...]:
    """One round in which each rank sends to each other of its group: reduce-scatter or all-gather."""
    size = grid.shape[1]
    if size == 1:
        return ()
    own = np.broadcast_to(np.arange(size) * width, grid.shape) + _each(base, grid).reshape(grid.shape)
    none = np.zeros(grid.shape, dtype=np.int64)
    exchange = GroupExchange(
        groups=grid,
        out=none if reduce else own,
        into=own if reduce else none,
        count=width,
        combine=reduce,
        hops=hops,
        streams=streams,
    )
    return (exchange,)


def star_round(
    grid: Ints, base: Ints | int, width: int, *, inwards: bool, hops: tuple[int, int], streams: bool = False
) -> tuple[AlgorithmStep, ...]:
    """One round between each group's first rank and its others, each with the other's own chunks."""
    size = grid.shape[1]
    if size == 1:
        return ()
    others, first = grid[:, 1:].ravel(), np.repeat(grid[:, 0], size - 1)
    sends = Sends(
        src=others if inwards else first,
        dst=first if inwards else others,
        base=np.repeat(_each(base, grid).reshape(grid.shape)[:, 0], size - 1),
        first=np.tile(np.arange(1, size), len(grid)),
        modulus=size,
        width=width,
        hops=hops,
        streams=streams,
    )
    return (sends,)


def _each(base: Ints | int, grid: Ints) -> Ints:
    """A base per rank of the grid, flat."""
    wide = np.broadcast_to(np.asarray(base, dtype=np.int64).reshape(-1, 1), grid.shape)
    return np.asarray(wide.ravel(), dtype=np.int64)
