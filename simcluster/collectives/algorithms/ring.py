"""The ring: every rank passes to its neighbour what it got from the one before."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar

import numpy as np

from simcluster.cluster.link import Level
from simcluster.cluster.span import Span
from simcluster.collectives.algorithm import Algorithm, channels, pieces
from simcluster.collectives.operation import Operation
from simcluster.collectives.step import Step, hops
from simcluster.collectives.wire import Array, Wire

Parts = list[list[list[Array]]]
"""By rank, by the rank that will own the chunk, by channel."""


class Ring(Algorithm):
    """n - 1 steps of S/n bytes (all-reduce: 2(n - 1)), one ring per rail.

    On several hosts each of the r rings leaves a host through its own network card, and the rank that sends
    there differs from ring to ring: a card carries S/(n r) per step, a device S/n, or (r - 1)/r of that if
    every rank is some ring's last. Of the steps, N - 1 (twice in all-reduce) wait for the network, as NCCL
    counts them. Broadcast streams along an open ring.
    """

    kind: ClassVar[str] = "ring"
    operations: ClassVar[frozenset[Operation]] = frozenset(
        {Operation.ALL_REDUCE, Operation.ALL_GATHER, Operation.REDUCE_SCATTER, Operation.BROADCAST}
    )

    def steps(self, operation: Operation, span: Span, num_bytes: float) -> tuple[Step, ...]:
        """See ``Algorithm.steps``; what they are is told above."""
        ranks, hosts = span.num_ranks, span.num_hosts
        between = 1 / span.rails if hosts > 1 else 0.0
        if operation is Operation.BROADCAST:
            inside = num_bytes if span.ranks_per_host > 1 else 0.0
            stream = Step(1, None, (inside, num_bytes * between))
            return (*hops(hosts - 1, ranks - hosts), stream)
        chunk = num_bytes / ranks
        every_rank_is_last = hosts > 1 and span.rails == span.ranks_per_host
        inside = chunk * (1 - between) if every_rank_is_last else chunk
        passes = 2 if operation is Operation.ALL_REDUCE else 1
        loads = (inside, chunk * between)
        steps = (
            Step(passes * (hosts - 1), Level.NETWORK, loads),
            Step(passes * (ranks - hosts), Level.HOST, loads),
        )
        return tuple(step for step in steps if step.repeat)

    def run(
        self, operation: Operation, arrays: Sequence[Array], wire: Wire, reduction: np.ufunc = np.add
    ) -> list[Array]:
        """See ``Algorithm.run``."""
        ranks = range(wire.num_ranks)
        rails = wire.rails if len(wire.ranks_per_host) > 1 else 1
        orders = [_order(wire, rail) for rail in range(rails)]
        if operation is Operation.BROADCAST:
            return _broadcast(arrays, wire, rails)
        if operation is Operation.ALL_GATHER:
            own = [channels(array, rails) for array in arrays]
            held: Parts = [[own[rank] if owner == rank else [] for owner in ranks] for rank in ranks]
            _gather(held, orders, wire)
            shape = arrays[0].shape
            parts = [[np.concatenate(held[rank][owner]).reshape(shape) for owner in ranks] for rank in ranks]
            return [np.concatenate(part) for part in parts]
        if operation is Operation.REDUCE_SCATTER:
            cut = [pieces(array, wire.num_ranks) for array in arrays]
            held = [[channels(piece, rails) for piece in cut[rank]] for rank in ranks]
            _reduce(held, orders, wire, reduction)
            return [np.concatenate(held[rank][rank]).reshape(cut[rank][rank].shape) for rank in ranks]
        held = [[channels(chunk, rails) for chunk in channels(array, wire.num_ranks)] for array in arrays]
        _reduce(held, orders, wire, reduction)
        _gather(held, orders, wire)
        flat = [[np.concatenate(held[rank][owner]) for owner in ranks] for rank in ranks]
        return [np.concatenate(chunks).reshape(arrays[0].shape) for chunks in flat]


def _order(wire: Wire, rail: int) -> list[int]:
    """The ring of one rail: host by host, on each host last the rank beside the rail's network card."""
    order: list[int] = []
    for host in range(len(wire.ranks_per_host)):
        mates = wire.members(host)
        last = max(place for place, rank in enumerate(mates) if wire.rail_of(rank) == rail)
        order += mates[last + 1 :] + mates[: last + 1]
    return order


def _reduce(held: Parts, orders: list[list[int]], wire: Wire, reduction: np.ufunc) -> None:
    """Reduce-scatter in place: after it each rank holds the whole of its own chunk."""
    ranks = wire.num_ranks
    for step in range(ranks - 1):
        wire.num_rounds += 1
        arrived = []
        for rail, order in enumerate(orders):
            for place, src in enumerate(order):
                dst, owner = order[(place + 1) % ranks], order[(place - step - 1) % ranks]
                arrived.append((dst, owner, rail, wire.send(src, dst, held[src][owner][rail], rail)))
        for dst, owner, rail, data in arrived:
            held[dst][owner][rail] = reduction(held[dst][owner][rail], data)


def _gather(held: Parts, orders: list[list[int]], wire: Wire) -> None:
    """All-gather in place: each rank starts with its own chunk and ends with all of them."""
    ranks = wire.num_ranks
    for rank in range(ranks):
        for owner in range(ranks):
            if owner != rank:
                held[rank][owner] = [np.empty(0)] * len(orders)
    for step in range(ranks - 1):
        wire.num_rounds += 1
        arrived = []
        for rail, order in enumerate(orders):
            for place, src in enumerate(order):
                dst, owner = order[(place + 1) % ranks], order[(place - step) % ranks]
                arrived.append((dst, owner, rail, wire.send(src, dst, held[src][owner][rail], rail)))
        for dst, owner, rail, data in arrived:
            held[dst][owner][rail] = data


def _broadcast(arrays: Sequence[Array], wire: Wire, rails: int) -> list[Array]:
    """The first rank's array along open rings that start at it, host by host."""
    parts = [channels(arrays[0], rails)] + [[np.empty(0)] * rails for _ in arrays[1:]]
    for rail in range(rails):
        order = _order(wire, rail)
        order.remove(0)
        order.insert(0, 0)
        for src, dst in pairwise(order):
            parts[dst][rail] = wire.send(src, dst, parts[src][rail], rail)
    wire.num_rounds += wire.num_ranks - 1
    return [np.concatenate(part).reshape(arrays[0].shape) for part in parts]
