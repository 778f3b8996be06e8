"""The coarsest equitable partition of a coloured structure, by hashing on integer arrays until stable.

Equal colour comes to mean: ranks are in groups of equal colours, groups have equally coloured members and
load equally coloured links equally, links are loaded equally by equally coloured groups. A multiset is hashed
as the sum, modulo 2^64, of a random odd word per colour times one per label (load, pattern, place), which no
order can change. The words of colours are others in every round and a round only ever splits, so a collision
matters only in the very last round, which two elements fail with a chance below 2^-50. What the classes
carry together is then compared with what all links carry.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import SimulationError
from simcluster.number_arrays import Ints
from simcluster.program.symmetry.coloured_graph import ColouredGraph, GroupLoads, RankGroups

Words = NDArray[np.uint64]

_GOLDEN, _ODD = 0x9E3779B97F4A7C15, 0xD1342543DE82EF95
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_FIXED = 1 << 40
"""Salts from here on are those of labels, which keep their words; colours get new ones every round."""
_BUCKET_BITS = 20
"""Equal elements are found in at most as many buckets as there are numbers of so many bits."""


@dataclass(frozen=True, slots=True, eq=False)
class ElementClasses:
    """Classes of some elements, numbered by their first one.

    ``of`` [elements] is the class of each, -1 for those in none; ``first`` and ``sizes`` are by class.
    """

    of: Ints
    first: Ints
    sizes: Ints

    def __len__(self) -> int:
        return len(self.first)


@dataclass(frozen=True, slots=True, eq=False)
class Colouring:
    """Classes of ranks, of the groups of each meeting, and of the links that are loaded.

    ``flows`` are by meeting and pattern. Their rows are group classes, their links are link classes, and a
    load is the sum over *all* groups of the class on *one* link of the link class. ``rounds`` counts the
    passes over the loads.
    """

    ranks: ElementClasses
    meetings: tuple[ElementClasses, ...]
    links: ElementClasses
    flows: tuple[tuple[GroupLoads, ...], ...]
    rounds: int


def refine_colours(structure: ColouredGraph) -> Colouring:
    """The coarsest equitable partition of a structure that respects its first colours."""
    return _Refinement(structure).run()


def separate_colours(structure: ColouredGraph) -> Colouring:
    """Every rank, every group and every loaded link is a class of its own."""
    used = structure.used
    of = np.full(len(structure.links), -1, dtype=np.int64)
    of[used] = np.arange(len(used))
    groups = [np.arange(len(meeting)) for meeting in structure.meetings]
    return _coloured(
        structure,
        _numbering(np.arange(len(structure.ranks))),
        tuple(_numbering(group) for group in groups),
        ElementClasses(of, used, np.ones(len(used), dtype=np.int64)),
        0,
    )


def _numbering(different: Ints) -> ElementClasses:
    return ElementClasses(different, different, np.ones(len(different), dtype=np.int64))


def hash_words(numbers: Ints, salt: int) -> Words:
    """One odd 64-bit word per number, as good as random; other salts give independent ones."""
    mixed = numbers.astype(np.uint64) * np.uint64(_GOLDEN)
    mixed += np.uint64((salt + 1) * _ODD % (1 << 64))
    mixed ^= mixed >> np.uint64(30)
    mixed *= _FIRST
    mixed ^= mixed >> np.uint64(27)
    mixed *= _SECOND
    mixed ^= mixed >> np.uint64(31)
    return mixed | np.uint64(1)


class _Colours:
    """Colours of some elements, which only ever split; ``first`` is the smallest element of each."""

    __slots__ = ("first", "of")

    def __init__(self, start: Ints) -> None:
        if start.size and start.min() >= 0 and start.max() <= start.size:
            # Small numbers are found in a table, and nothing is sorted. Of several assignments to one place
            # the last counts, so that of the first element.
            first_of = np.full(int(start.max()) + 1, -1, dtype=np.int64)
            first_of[start[::-1]] = np.arange(len(start))[::-1]
            known = np.flatnonzero(first_of >= 0)
            self.first, number = first_of[known], np.empty_like(first_of)
            number[known] = np.arange(len(known))
            self.of = number[start]
            return
        _, first, of = np.unique(start, return_index=True, return_inverse=True)
        self.first, self.of = first.astype(np.int64), of.reshape(-1).astype(np.int64)

    def words(self, salt: int) -> Words:
        """The word of each element's colour."""
        return hash_words(np.arange(len(self.first)), salt)[self.of]

    def split(self, sums: Words) -> bool:
        """Gives elements of one colour with different sums different colours; whether there were any.

        Those that agree with the first of a colour keep it, so where nothing splits nothing is sorted.
        """
        apart = np.flatnonzero(sums != sums[self.first][self.of])
        if not apart.size:
            return False
        first, number = _numbered(self.of[apart], sums[apart])
        self.of[apart] = len(self.first) + number
        self.first = np.concatenate([self.first, apart[first]])
        return True

    def numbering(self) -> ElementClasses:
        """The classes, numbered by their first element."""
        order = np.argsort(self.first)
        number = np.empty_like(order)
        number[order] = np.arange(len(order))
        of = number[self.of]
        return ElementClasses(of, self.first[order], np.bincount(of, minlength=len(order)).astype(np.int64))


def _numbered(colours: Ints, sums: Words) -> tuple[Ints, Ints]:
    """The first of all elements that are equal in both, rising, and for every element the number of its own.

    There are few different ones as a rule: each has a bucket to itself, and nothing is sorted.
    """
    count = len(colours)
    mixed = (sums ^ colours.astype(np.uint64) * np.uint64(_GOLDEN)) * _FIRST
    bits = min(_BUCKET_BITS, count.bit_length() + 3)
    bucket = (mixed >> np.uint64(64 - bits)).astype(np.int64)
    # Of several assignments to one place the last counts, so that of the first element.
    first_in = np.empty(1 << bits, dtype=np.int64)
    first_in[bucket[::-1]] = np.arange(count)[::-1]
    first = first_in[bucket]
    shared = np.flatnonzero((sums[first] != sums) | (colours[first] != colours))
    if shared.size:
        shared = shared[np.lexsort((sums[shared], colours[shared]))]
        starts = np.ones(len(shared), dtype=np.bool_)
        starts[1:] = (colours[shared[1:]] != colours[shared[:-1]]) | (sums[shared[1:]] != sums[shared[:-1]])
        first[shared] = shared[starts][np.cumsum(starts) - 1]
    is_first = first == np.arange(count)
    return np.flatnonzero(is_first), (np.cumsum(is_first) - 1)[first]


class _Edges:
    """The loads of one pattern as a matrix of label words, groups by links, multiplied from both sides."""

    __slots__ = ("counts", "labels", "links", "rows", "starts")

    def __init__(self, loads: GroupLoads, salt: int) -> None:
        counts = np.diff(loads.offsets)
        self.rows = np.flatnonzero(counts)
        self.counts, self.starts = counts[self.rows], loads.offsets[self.rows]
        self.links = loads.links
        uniform = loads.loads.min() == loads.loads.max()
        self.labels = hash_words(loads.loads[:1] if uniform else loads.loads, salt)

    def into_groups(self, of_links: Words, sums: Words) -> None:
        """Adds to each group's sum what its links say."""
        words = of_links[self.links]
        if self.labels.size == 1:
            sums[self.rows] += np.add.reduceat(words, self.starts) * self.labels
        else:
            words *= self.labels
            sums[self.rows] += np.add.reduceat(words, self.starts)

    def into_links(self, of_groups: Words, sums: Words) -> None:
        """Adds to each link's sum what the groups that load it say."""
        words = of_groups[self.rows]
        if self.labels.size == 1:
            np.add.at(sums, self.links, np.repeat(words * self.labels, self.counts))
        else:
            np.add.at(sums, self.links, np.repeat(words, self.counts) * self.labels)


class _Meet:
    """The groups of one meeting while they are refined."""

    __slots__ = ("colours", "edges", "members", "number", "ordered", "places")

    def __init__(self, meetings: RankGroups, number: int) -> None:
        self.members, self.number, self.ordered = meetings.members, number, meetings.ordered
        self.colours = _Colours(meetings.colours)
        self.places = hash_words(np.arange(self.members.shape[1]), _FIXED + number)
        # Reducing and gathering over one ring load the links alike: what says the same is heard once.
        different: list[GroupLoads] = []
        for loads in meetings.loads:
            if loads.links.size and not any(_equal(loads, other) for other in different):
                different.append(loads)
        salts = range((number + 1) << 20, (number + 2) << 20)
        self.edges = [_Edges(loads, 2 * _FIXED + salt) for loads, salt in zip(different, salts, strict=False)]

    def from_ranks(self, of_ranks: Words) -> bool:
        """Splits groups by their members."""
        words = of_ranks[self.members]
        if self.ordered:
            words *= self.places
        return self.colours.split(words.sum(axis=1, dtype=np.uint64))

    def into_ranks(self, salt: int, sums: Words) -> None:
        """Adds to each rank's sum what its group says."""
        words = self.colours.words(salt + self.number)
        if self.ordered:
            for place, word in zip(self.members.T, self.places, strict=True):
                sums[place] += words * word
        else:
            sums[self.members] += words[:, np.newaxis]

    def from_links(self, of_links: Words) -> bool:
        """Splits groups by the links they load."""
        sums = np.zeros(len(self.members), dtype=np.uint64)
        for edge in self.edges:
            edge.into_groups(of_links, sums)
        return bool(self.edges) and self.colours.split(sums)

    def into_links(self, salt: int, sums: Words) -> None:
        """Adds to each link's sum what the groups that load it say."""
        if self.edges:
            words = self.colours.words(salt + self.number)
            for edge in self.edges:
                edge.into_links(words, sums)


def _equal(one: GroupLoads, other: GroupLoads) -> bool:
    pairs = ((one.offsets, other.offsets), (one.loads, other.loads), (one.links, other.links))
    return all(own is theirs or np.array_equal(own, theirs) for own, theirs in pairs)


class _Refinement:
    """The colours of ranks, groups and links, and the rounds that split them."""

    def __init__(self, structure: ColouredGraph) -> None:
        self.structure = structure
        self.ranks = _Colours(structure.ranks)
        self.meets = [
            _Meet(meeting, number)
            for number, meeting in enumerate((*structure.meetings, *structure.implied))
            if meeting.members.size
        ]
        self.used = structure.used
        self.links = _Colours(structure.links[self.used])
        self.salt = 0

    def run(self) -> Colouring:
        rounds = 0
        while True:
            rounds += 1
            while self._ranks_split():
                pass
            if not (self.used.size and self._links_split_groups()):
                break
        links = self.links.numbering()
        of = np.full(len(self.structure.links), -1, dtype=np.int64)
        of[self.used] = links.of
        nothing = np.zeros(0, dtype=np.int64)
        groups = [ElementClasses(nothing, nothing, nothing)] * len(self.structure.meetings)
        for meet in self.meets:
            if meet.number < len(groups):
                groups[meet.number] = meet.colours.numbering()
        return _coloured(
            self.structure,
            self.ranks.numbering(),
            tuple(groups),
            ElementClasses(of, self.used[links.first], links.sizes),
            rounds,
        )

    def _salt(self) -> int:
        """New words for colours: a salt for ranks or links, and one after it for each meeting."""
        self.salt += 1 + len(self.structure.meetings) + len(self.structure.implied)
        return self.salt

    def _ranks_split(self) -> bool:
        """Groups by their members, then ranks by their groups; whether ranks split, without which groups
        would not split again.
        """
        of_ranks = self.ranks.words(self._salt())
        for meet in self.meets:
            meet.from_ranks(of_ranks)
        sums, salt = np.zeros(len(self.structure.ranks), dtype=np.uint64), self._salt()
        for meet in self.meets:
            meet.into_ranks(salt, sums)
        return self.ranks.split(sums)

    def _links_split_groups(self) -> bool:
        """Links by the groups that load them, then groups by their links; whether groups split, without which
        neither links nor ranks would split again.
        """
        sums, salt = np.zeros(len(self.structure.links), dtype=np.uint64), self._salt()
        for meet in self.meets:
            meet.into_links(salt, sums)
        self.links.split(sums[self.used])
        of_links = np.zeros(len(self.structure.links), dtype=np.uint64)
        of_links[self.used] = self.links.words(self._salt())
        split = [meet.from_links(of_links) for meet in self.meets]
        return any(split)


def _coloured(
    structure: ColouredGraph,
    ranks: ElementClasses,
    groups: Sequence[ElementClasses],
    links: ElementClasses,
    rounds: int,
) -> Colouring:
    flows = tuple(
        tuple(_flow(loads, group, links) for loads in meeting.loads)
        for meeting, group in zip(structure.meetings, groups, strict=True)
    )
    return Colouring(ranks, tuple(groups), links, flows, rounds)


def _flow(loads: GroupLoads, groups: ElementClasses, links: ElementClasses) -> GroupLoads:
    """Per group class the load of all its groups on one link of each link class, summed exactly."""
    chosen = np.zeros(len(links.of), dtype=np.bool_)
    chosen[links.first] = True
    kept = np.flatnonzero(chosen[loads.links])
    rows = np.searchsorted(loads.offsets, kept, side="right") - 1
    wide = max(1, len(links))
    keys, place = np.unique(groups.of[rows] * wide + links.of[loads.links[kept]], return_inverse=True)
    sums = np.zeros(len(keys), dtype=np.int64)
    np.add.at(sums, place.reshape(-1), loads.loads[kept])
    offsets = np.searchsorted(keys, np.arange(len(groups) + 1) * wide)
    flow = GroupLoads(offsets.astype(np.int64), keys % wide, sums)
    _check(loads, groups, flow, links)
    return flow


def _check(loads: GroupLoads, groups: ElementClasses, flow: GroupLoads, links: ElementClasses) -> None:
    """What the chosen links carry must stand for what all links carry, class by class, to the last unit."""
    whole = np.zeros(len(groups), dtype=np.int64)
    np.add.at(whole, groups.of, _row_sums(loads.offsets, loads.loads))
    if not np.array_equal(whole, _row_sums(flow.offsets, flow.loads * links.sizes[flow.links])):
        raise SimulationError("links that carry different loads have been taken for equal")


def _row_sums(offsets: Ints, values: Ints) -> Ints:
    sums = np.zeros(len(offsets) - 1, dtype=np.int64)
    filled = np.flatnonzero(offsets[1:] > offsets[:-1])
    if filled.size:
        sums[filled] = np.add.reduceat(values, offsets[filled])
    return sums
