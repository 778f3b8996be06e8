"""Steps through switches that reduce: up to the switch, to the rank that owns a part, and back to all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from simcluster.collectives.group_site import GroupSite
from simcluster.collectives.step import AlgorithmStep, Sends
from simcluster.number_arrays import Ints


def switch_reduce(site: GroupSite, width: int, *, hops: tuple[int, int]) -> tuple[AlgorithmStep, ...]:
    """Each unit's switch reduces all chunks and hands each rank its own ``width`` ones.

    A chunk is owned by the rank at its place in the unit, so units are equal.
    """
    ranks = np.arange(site.num_ranks)
    count = site.most * width
    switch = site.switch(site.unit_of)
    up = Sends(src=ranks, dst=switch, modulus=count, count=count, combine=True, hops=hops)
    return up, replace(_owned(site, switch, ranks, width), streams=True)


def switch_broadcast(
    site: GroupSite, width: int, *, hops: tuple[int, int], streams: bool
) -> tuple[AlgorithmStep, ...]:
    """Each rank hands its ``width`` chunks to its unit's switch, which copies them to all its ranks."""
    ranks = np.arange(site.num_ranks)
    count = site.most * width
    switch = site.switch(site.unit_of)
    own = replace(_owned(site, ranks, switch, width), hops=hops, streams=streams)
    return own, Sends(src=switch, dst=ranks, modulus=count, count=count, streams=True)


def network_reduce(
    site: GroupSite, width: int, *, hops: tuple[int, int], streams: bool
) -> tuple[AlgorithmStep, ...]:
    """The network reduces what ranks at equal places of all units own, and hands them the result."""
    ranks = np.arange(site.num_ranks)
    meeting = site.meeting(ranks % site.most)
    up = _owned(site, ranks, meeting, width)
    down = _owned(site, meeting, ranks, width)
    return (
        replace(up, combine=True, once=True, hops=hops, streams=streams),
        replace(down, once=True, streams=True),
    )


def _owned(site: GroupSite, src: Ints, dst: Ints, width: int) -> Sends:
    """The ``width`` chunks that each rank owns in its unit, one send for every rank."""
    owned = np.arange(site.num_ranks) % site.most
    return Sends(src=src, dst=dst, first=owned, modulus=site.most, width=width)
