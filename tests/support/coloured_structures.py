"""Small coloured structures, and the plain way to refine them, with tuples, for tests to compare with."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

from simcluster.program.symmetry.coloured_graph import ColouredGraph, GroupLoads, RankGroups


def rows(*each):
    """Loads from one mapping of link to load (or a list of links that carry 1) per group."""
    each = [row if isinstance(row, dict) else dict.fromkeys(row, 1) for row in each]
    return GroupLoads(
        np.cumsum([0, *map(len, each)]),
        np.array([link for row in each for link in row], dtype=np.int64),
        np.array([load for row in each for load in row.values()], dtype=np.int64),
    )


def meetings(members, *loads, colours=None, ordered=False):
    """Groups of equal first colour unless told otherwise."""
    members = np.array(members, dtype=np.int64).reshape(len(members), -1)
    colours = np.zeros(len(members), dtype=np.int64) if colours is None else np.array(colours)
    return RankGroups(members, colours, loads, ordered)


def structure(ranks, *meets, links=()):
    """A structure; ``ranks`` and ``links`` are their first colours."""
    return ColouredGraph(np.array(ranks), meets, np.array(links, dtype=np.int64))


def plainly_refined(found):
    """Colours of ranks, of groups by meeting, and of used links (a mapping), by sorted tuples."""
    used = found.used.tolist()
    ranks, links = found.ranks.tolist(), {link: found.links[link] for link in used}
    groups = [each.colours.tolist() for each in found.meetings]
    patterns = [[[each.row(g) for each in meet.loads] for g in range(len(meet))] for meet in found.meetings]
    while True:
        before = _count(ranks, groups, links)
        new_groups = []
        for meet, mine, told in zip(found.meetings, groups, patterns, strict=True):
            seen = []
            for g, colour in enumerate(mine):
                members = [ranks[rank] for rank in meet.members[g]]
                loaded = [sorted((load, links[link]) for link, load in row.items()) for row in told[g]]
                seen.append((colour, tuple(members if meet.ordered else sorted(members)), _tuple(loaded)))
            new_groups.append(_numbers(seen))
        of_ranks = [[] for _ in ranks]
        of_links = {link: [] for link in links}
        for m, (meet, mine, told) in enumerate(zip(found.meetings, groups, patterns, strict=True)):
            for g, colour in enumerate(mine):
                for place, rank in enumerate(meet.members[g]):
                    of_ranks[rank].append((m, place if meet.ordered else 0, colour))
                for p, row in enumerate(told[g]):
                    for link, load in row.items():
                        of_links[link].append((m, p, load, colour))
        ranks = _numbers([(old, tuple(sorted(seen))) for old, seen in zip(ranks, of_ranks, strict=True)])
        new_links = _numbers([(links[link], tuple(sorted(of_links[link]))) for link in used])
        links, groups = dict(zip(used, new_links, strict=True)), new_groups
        if _count(ranks, groups, links) == before:
            return ranks, groups, links


def _count(ranks, groups, links):
    return len(set(ranks)), [len(set(each)) for each in groups], len(set(links.values()))


def _numbers(seen):
    known = {}
    return [known.setdefault(each, len(known)) for each in seen]


def _tuple(lists):
    return tuple(map(tuple, lists))


def same_partition(one, other):
    """Whether two sequences of colours part their elements alike."""
    pairs = set(zip(one, other, strict=True))
    return len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs})


def max_min(flows, capacities):
    """Fair rates, exactly: ``flows`` map links to loads, all rates grow together until a link of theirs is
    full. A load may stand for several flows of equal rate."""
    rates = [None] * len(flows)
    left = {link: Fraction(capacity) for link, capacity in capacities.items()}
    level = Fraction(0)
    while any(rate is None for rate in rates):
        demand = dict.fromkeys(left, 0)
        for flow, rate in zip(flows, rates, strict=True):
            for link, load in flow.items() if rate is None else ():
                demand[link] += load
        step = min((left[link] / demand[link] for link in left if demand[link]), default=None)
        if step is None:
            return [Fraction(-1) if rate is None else rate for rate in rates]
        level += step
        for link, load in demand.items():
            left[link] -= load * step
        full = {link for link in left if demand[link] and left[link] == 0}
        rates = [
            level if rate is None and full & set(flow) else rate
            for flow, rate in zip(flows, rates, strict=True)
        ]
    return rates


@st.composite
def structures(draw):
    """Regular structures with a few odd places: what is regular folds, and much of it must not."""
    num_ranks = draw(st.sampled_from([4, 6, 8, 12, 16]))
    num_links = draw(st.sampled_from([1, 3, 6, 8, 12]))
    found = []
    for _ in range(draw(st.integers(0, 3))):
        ordered = draw(st.booleans())
        members = draw(_pairs(num_ranks) if ordered else _groups(num_ranks))
        loads = [draw(_loads(len(members), num_links)) for _ in range(draw(st.integers(0, 2)))]
        found.append(meetings(members, *loads, colours=draw(_colours(len(members))), ordered=ordered))
    return ColouredGraph(draw(_colours(num_ranks)), found, draw(_colours(num_links)))


def _colours(count):
    """All equal, alternating, or all equal but for one."""
    return st.one_of(
        st.just(np.zeros(count, dtype=np.int64)),
        st.just(np.arange(count, dtype=np.int64) % 2),
        st.integers(0, count - 1).map(lambda odd: (np.arange(count) == odd).astype(np.int64)),
    )


@st.composite
def _groups(draw, num_ranks):
    """Blocks of neighbours or every so many-th rank, perhaps with two ranks exchanged, perhaps not all."""
    size = draw(st.sampled_from([size for size in (1, 2, 3, 4) if num_ranks % size == 0]))
    order = np.arange(num_ranks)
    if draw(st.booleans()):
        order = order.reshape(size, -1).T.ravel()
    if draw(st.booleans()):
        a, b = draw(st.integers(0, num_ranks - 1)), draw(st.integers(0, num_ranks - 1))
        order = order.copy()
        order[[a, b]] = order[[b, a]]
    members = order.reshape(-1, size)
    return members[draw(st.sampled_from([0, 1])) if len(members) > 1 else 0 :]


@st.composite
def _pairs(draw, num_ranks):
    """Each rank and the one some places on, around or up to the end."""
    shift = draw(st.sampled_from([1, 2]))
    count = draw(st.sampled_from([num_ranks, num_ranks - shift]))
    return [(rank, (rank + shift) % num_ranks) for rank in range(count)]


@st.composite
def _loads(draw, num_groups, num_links):
    """Each group some links on from the one before, with a pattern of loads, one perhaps odd, or idle."""
    width, stride = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    pattern = draw(st.lists(st.sampled_from([1, 2]), min_size=width, max_size=width))
    odd = draw(st.none() | st.integers(0, num_groups - 1))
    unlike = draw(st.sampled_from([0, 3]))
    found = []
    for group in range(num_groups):
        row = {}
        for place, load in enumerate(pattern):
            row[(group * stride + place) % num_links] = unlike if group == odd else load
        found.append({link: load for link, load in row.items() if load})
    return rows(*found)
