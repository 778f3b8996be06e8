"""Links of a network that cannot hold a flow back, because the cards behind them cannot fill them.

Behind a leaf whose cables up carry as much as its cards (an oversubscription of 1 or less), whatever crosses
the cables crosses those cards too. If no card is overfull, nor are the cables: their limit follows from those
of the cards, and max-min fair rates are the same without it. Ranks that differ only in which leaf they are
on, or how near to its last host, then do the same at the same times, and are one class.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from simcluster.cluster import Cluster, Topology
from simcluster.number_arrays import Ints
from simcluster.program.communication.program_loads import ProgramLoads
from simcluster.program.symmetry import GroupLoads

ROUNDING = 2.0**-50
"""Part by which a sum of rates may be wrong."""


def without_redundant_links(loads: ProgramLoads, cluster: Cluster) -> ProgramLoads:
    """The loads on those links alone whose limits do not follow from the limits of network cards.

    For one Program that has the cluster to itself; clusters whose links change, or carry traffic of others,
    keep all links.
    """
    loading = loads.loading
    patterns = [*loading.transfers, *(pattern for rows in loading.groups.values() for pattern in rows)]
    redundant = _redundant_links(patterns, cluster)
    if not redundant.any():
        return loads
    groups = {
        axes: [_without(pattern, redundant) for pattern in rows] for axes, rows in loading.groups.items()
    }
    transfers = [_without(pattern, redundant) for pattern in loading.transfers]
    return replace(loads, loading=replace(loading, groups=groups, transfers=transfers))


def _without(loads: GroupLoads, left_out: NDArray[np.bool_]) -> GroupLoads:
    kept = ~left_out[loads.links]
    offsets = np.concatenate([[0], np.cumsum(kept)])[loads.offsets]
    return GroupLoads(offsets.astype(np.int64), loads.links[kept], loads.loads[kept])


def _redundant_links(patterns: list[GroupLoads], cluster: Cluster) -> NDArray[np.bool_]:
    """Which links [links] every row of the patterns loads at most as much as the cards behind them together,
    which together carry at most as much.
    """
    topology = cluster.topology
    redundant = np.zeros(topology.num_links, dtype=np.bool_)
    if cluster.mixed or cluster.link_changes or cluster.background or not topology.network.is_tree:
        return redundant
    rates = topology.rates(np.arange(topology.num_links))
    for cards, links in _links_over_cards(topology):
        behind = np.full(topology.num_links, -1, dtype=np.int64)
        behind[cards] = links
        own = np.unique(links)
        behind[own] = own
        carried = np.zeros(topology.num_links)
        np.add.at(carried, links, rates[cards])
        fits = np.zeros(topology.num_links, dtype=np.bool_)
        fits[own] = carried[own] <= rates[own] * (1 + ROUNDING)
        for loads in patterns:
            fits[_overloaded(loads, behind)] = False
        redundant |= fits
    return redundant


def _overloaded(loads: GroupLoads, behind: Ints) -> Ints:
    """The links that a row loads more than it loads the cards ``behind`` them: a link by card, and itself."""
    of = behind[loads.links]
    met = np.flatnonzero(of >= 0)
    if not met.size:
        return of[:0]
    rows = np.repeat(np.arange(len(loads)), np.diff(loads.offsets))[met]
    of, own, amounts = of[met], loads.links[met] == of[met], loads.loads[met]
    keys, place = np.unique(rows * len(behind) + of, return_inverse=True)
    spare = np.zeros(len(keys), dtype=np.int64)
    np.add.at(spare, place.reshape(-1), np.where(own, -amounts, amounts))
    return np.unique(keys[spare < 0] % len(behind))


def _links_over_cards(topology: Topology) -> Iterator[tuple[Ints, Ints]]:
    """Tier by tier, up and down: links of cards, and beside each the link of the network that it leads to."""
    first = topology.network.site.first_link
    links = np.arange(topology.num_links)
    tails, heads = topology.ends(links)
    for near, far in ((tails, heads), (heads, tails)):
        # From the card on, ``near`` is the end of a link on its side and ``far`` the other one.
        network = topology.are_network_links(links)
        cards = links[:first][network[:first] & (near[:first] < far[:first])]
        node = far[cards]
        reached = np.zeros(topology.num_nodes, dtype=np.bool_)
        while cards.size:
            reached[node] = True
            further = links[first:][reached[near[first:]] & ~reached[far[first:]]]
            over = np.full(topology.num_nodes, -1, dtype=np.int64)
            over[near[further]] = further
            if np.count_nonzero(over >= 0) < further.size:
                return  # no tree: a switch with several ways on
            beyond = over[node] >= 0
            cards, link = cards[beyond], over[node[beyond]]
            node = far[link]
            if cards.size:
                yield cards, link
