"""Loads of all-to-all exchanges, counted without listing their sends."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from simcluster.cluster import Topology
from simcluster.collectives.group_site import GroupSite
from simcluster.collectives.step import GroupExchange
from simcluster.number_arrays import Ints

Counted: TypeAlias = tuple[Ints, Ints, float]
"""Senders and receivers of some sends, and how many like it each of them stands for."""


def count_exchange(
    step: GroupExchange, site: GroupSite, nodes: Ints, topology: Topology
) -> tuple[list[Counted], tuple[Ints, Ints]]:
    """What can be counted of an exchange, and the sends that are left, by the site's numbers.

    The cluster is nested: hosts, pods, units of the network. What leaves such a part takes links that depend
    on its sender and on the index of its receiver's device on its host, and arrives over links that depend on
    its receiver. So where all parts of a tier are equal, it is enough to look at one receiver of each
    place, in another part, and to count it for all.
    """
    rows = step.groups
    counted: list[Counted] = []
    left: list[tuple[Ints, Ints]] = []
    below = np.arange(site.num_ranks)
    for number, tier in enumerate(_tiers(site, nodes, topology)):
        lower, upper = below[rows], tier[rows]
        below = tier
        partners = None
        if number:
            places = topology.place_of(nodes[0, rows])
            partners = _partners(lower, upper, site.host_of[rows], places)
        if partners is None:
            left.append(_apart(rows, lower, upper))
            continue
        columns, times = partners
        src = np.broadcast_to(rows[:, np.newaxis, :], (len(rows), *columns.shape)).ravel()
        dst = rows[:, columns].ravel()
        if times:
            counted.append((src, dst, float(times)))
    src, dst = (np.concatenate([pairs[end] for pairs in left]) for end in (0, 1))
    return counted, (src, dst)


def _tiers(site: GroupSite, nodes: Ints, topology: Topology) -> list[Ints]:
    """The part of every rank [n], tier by tier from its host to all; the network's are equal in all groups.

    Where each pair of cards takes a way of its own, the last but one is the pod, and all is left to routes.
    """
    whole = np.zeros(site.num_ranks, dtype=np.int64)
    hosts = topology.host_of(nodes[0, : site.num_ranks])
    if _is_distinguished(topology):
        return [site.host_of, site.pod_of, np.full(site.num_ranks, -1)]
    units = [part[0] for part in topology.network.places(hosts[np.newaxis])]
    return [site.host_of, site.pod_of, *units, whole]


def _is_distinguished(topology: Topology) -> bool:
    return bool(topology.network.families()) and not topology.network.is_tree


def _partners(lower: Ints, upper: Ints, hosts: Ints, places: Ints) -> tuple[Ints, int] | None:
    """For each column one of every place in a host, in the same ``upper`` part and another ``lower`` one
    [places, columns], and how many each stands for; None unless parts are equal and lie side by side.
    """
    size = lower.shape[1]
    wide, narrow, peers = (_run(part) for part in (upper, lower, hosts))
    if not (wide and narrow and peers) or wide % narrow or narrow % peers or (upper < 0).any():
        return None
    if (places.reshape(len(places), -1, peers) != places[:, np.newaxis, :peers]).any():
        return None
    column = np.arange(size)
    there = column // wide * wide + (column % wide - column % peers + narrow) % wide
    place = (column % peers + np.arange(peers)[:, np.newaxis]) % peers
    return there + place, (wide - narrow) // peers


def _run(values: Ints) -> int:
    """The length of the runs of equal values that every row is made of; 0 if it is not, or they differ."""
    length = int(np.argmax(np.diff(values[0], append=values[0, -1] + 1) != 0)) + 1
    return length if values.shape[1] % length == 0 and _are_runs(values, length) else 0


def _are_runs(values: Ints, length: int) -> bool:
    """Whether each row is runs of one length of equal values, each value in one run."""
    runs = values.reshape(len(values), -1, length)
    if (runs != runs[:, :, :1]).any():
        return False
    heads = np.sort(runs[:, :, 0], axis=1)
    return bool((heads[:, 1:] != heads[:, :-1]).all())


def _apart(groups: Ints, lower: Ints, upper: Ints) -> tuple[Ints, Ints]:
    """All pairs of a row in one ``upper`` part and different ``lower`` ones."""
    width = int(np.argmax(np.diff(upper[0], append=-1) != 0)) + 1
    if groups.shape[1] % width == 0 and _are_runs(upper, width):
        # Only pairs within a part can match.
        groups, lower = groups.reshape(-1, width), lower.reshape(-1, width)
        upper = upper.reshape(-1, width)
    size = groups.shape[1]
    src, dst = [], []
    for skip in range(1, size):
        other, below, above = (np.roll(ranks, -skip, axis=1) for ranks in (groups, lower, upper))
        chosen = (lower != below) & (upper == above)
        src.append(groups[chosen])
        dst.append(other[chosen])
    empty = np.zeros(0, dtype=np.int64)
    return np.concatenate([empty, *src]), np.concatenate([empty, *dst])
