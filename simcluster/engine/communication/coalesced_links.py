"""Links that the same flows load equally, as one: the cables of a path, both directions of a port.

Of such links only the one with the least capacity can ever hold a flow back: with the same loads and the same
flows its share is the least in every round, so the rates are the same to the last bit without the others.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from simcluster.engine.communication.fabric import CapacityChange, Links
from simcluster.engine.communication.load_vectors import Vectors

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]


def coalesce_links(links: Links) -> Links:
    """The same flows over as few links as tell them apart; links that no vector loads are left out."""
    vectors = links.vectors
    used, numbers, same = _alike(vectors)
    if not len(used):
        return links
    count = int(same.max()) + 1
    capacity = np.full(count, np.inf)
    np.minimum.at(capacity, same, links.capacity[used])
    rows = np.repeat(np.arange(len(vectors)), np.diff(vectors.offsets))
    _, first = np.unique(rows * count + same[numbers], return_index=True)
    offsets = np.searchsorted(rows[first], np.arange(len(vectors) + 1))
    fewer = Vectors(offsets.astype(np.int64), same[numbers[first]], vectors.loads[first])
    return Links(capacity, fewer, _changes(links, used, same), links.background)


def _alike(vectors: Vectors) -> tuple[Ints, Ints, Ints]:
    """The links used, the place among them of every entry's link, and equal numbers for equal columns."""
    used, numbers = np.unique(vectors.links, return_inverse=True)
    numbers = numbers.reshape(-1)
    if not len(used):
        return used, numbers, numbers
    rows = np.repeat(np.arange(len(vectors)), np.diff(vectors.offsets))
    order = np.lexsort((rows, numbers))
    counts = np.bincount(numbers)
    first = np.cumsum(counts) - counts
    rows, bits = rows[order], vectors.loads[order].view(np.int64)
    digests = np.add.reduceat(_mixed(_mixed(rows.view(np.uint64)) ^ bits.view(np.uint64)), first)
    _, examples, same = np.unique(
        np.stack([counts, digests.view(np.int64)], axis=1), axis=0, return_index=True, return_inverse=True
    )
    same = same.reshape(-1)
    # Equal digests are no proof: every column is compared with the example of its kind.
    depth = np.arange(len(rows)) - np.repeat(first, counts)
    beside = np.repeat(first[examples[same]], counts) + depth
    differs = np.logical_or.reduceat((rows != rows[beside]) | (bits != bits[beside]), first)
    same[differs] = len(examples) + np.arange(np.count_nonzero(differs))
    return used, numbers, same


def _mixed(values: Words) -> Words:
    """Well-spread 64-bit words (the finaliser of splitmix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _changes(links: Links, used: Ints, same: Ints) -> tuple[CapacityChange, ...]:
    """Changes of the least capacity of the links that are one."""
    places = {link: place for place, link in enumerate(used.tolist())}
    touched = {int(same[places[change.link]]) for change in links.changes if change.link in places}
    members: defaultdict[int, dict[int, float]] = defaultdict(dict)
    if touched:
        for place in np.flatnonzero(np.isin(same, list(touched))).tolist():
            link = int(used[place])
            members[int(same[place])][link] = float(links.capacity[link])
    changes = []
    for change in sorted(links.changes, key=lambda change: change.time):
        if change.link in places:
            kind = int(same[places[change.link]])
            members[kind][change.link] = change.capacity
            changes.append(CapacityChange(change.time, kind, min(members[kind].values())))
    return tuple(changes)
