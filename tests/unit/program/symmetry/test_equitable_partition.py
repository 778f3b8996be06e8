"""The refinement against the plain one, against its own promise, and on structures drawn by hand."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.errors import SimulationError
from simcluster.program.symmetry import equitable_partition as colouring
from simcluster.program.symmetry.coloured_graph import ColouredGraph, GroupLoads
from simcluster.program.symmetry.equitable_partition import refine_colours, separate_colours
from tests.support.coloured_structures import (
    max_min,
    meetings,
    plainly_refined,
    rows,
    same_partition,
    structure,
    structures,
)


def members(numbering):
    """The classes as lists of their elements."""
    return [np.flatnonzero(numbering.of == index).tolist() for index in range(len(numbering))]


def assert_numbered_by_the_first(numbering, count):
    assert numbering.of.shape == (count,)
    assert numbering.first.tolist() == sorted(numbering.first.tolist())
    for index, elements in enumerate(members(numbering)):
        assert elements[0] == numbering.first[index]
        assert len(elements) == numbering.sizes[index]


@settings(max_examples=120)
@given(found=structures())
def test_it_is_the_plain_refinement(found):
    ranks, groups, links = plainly_refined(found)
    fast = refine_colours(found)
    assert same_partition(ranks, fast.ranks.of.tolist())
    for mine, theirs in zip(groups, fast.meetings, strict=True):
        assert same_partition(mine, theirs.of.tolist())
    assert same_partition([links[link] for link in found.used], fast.links.of[found.used].tolist())
    assert_numbered_by_the_first(fast.ranks, len(found.ranks))
    assert_numbered_by_the_first(fast.links, len(found.links))
    assert (fast.links.of >= 0).tolist() == np.isin(np.arange(len(found.links)), found.used).tolist()


@settings(max_examples=80)
@given(found=structures())
def test_flows_are_the_sums_over_all_groups_on_one_link_whichever(found):
    """And fair rates of the classes, from the flows alone, are those of each group."""
    for fast in (refine_colours(found), separate_colours(found)):
        for meet, numbering, flows in zip(found.meetings, fast.meetings, fast.flows, strict=True):
            for loads, flow in zip(meet.loads, flows, strict=True):
                assert len(flow) == len(numbering)
                for link in found.used.tolist():
                    carried = Counter()
                    for group in range(len(meet)):
                        carried[int(numbering.of[group])] += loads.row(group).get(link, 0)
                    told = {index: flow.row(index).get(int(fast.links.of[link]), 0) for index in carried}
                    assert told == carried
        every, folded, kinds = [], [], []
        for meet, numbering, flows in zip(found.meetings, fast.meetings, fast.flows, strict=True):
            for loads, flow in zip(meet.loads, flows, strict=True):
                kinds += (len(folded) + numbering.of).tolist()
                every += [loads.row(group) for group in range(len(meet))]
                folded += [flow.row(index) for index in range(len(numbering))]
        capacities = {link: 5 + 2 * int(found.links[link]) for link in found.used.tolist()}
        of_class = {int(fast.links.of[link]): capacity for link, capacity in capacities.items()}
        rates = max_min(folded, of_class)
        assert max_min(every, capacities) == [rates[kind] for kind in kinds]


@settings(max_examples=40)
@given(found=structures())
def test_the_order_of_groups_and_members_and_links_says_nothing(found):
    """Everything listed backwards, links renumbered: the same classes of ranks."""
    last = len(found.links) - 1
    turned = []
    for meet in found.meetings:
        loads = []
        for each in meet.loads:
            backwards = [each.row(group) for group in reversed(range(len(meet)))]
            loads.append(
                rows(*({last - link: row[link] for link in reversed(list(row))} for row in backwards))
            )
        order = meet.members[::-1] if meet.ordered else meet.members[::-1, ::-1]
        turned.append(meetings(order, *loads, colours=meet.colours[::-1], ordered=meet.ordered))
    other = refine_colours(ColouredGraph(found.ranks, turned, found.links[::-1]))
    assert np.array_equal(refine_colours(found).ranks.of, other.ranks.of)


def test_two_groups_share_a_link():
    """Groups 0 and 1 go over link 4, groups 2 and 3 each over one of their own: their members differ."""
    alone = structure(
        [0] * 8, meetings([[0, 1], [2, 3], [4, 5], [6, 7]], rows([4], [4], [5], [6])), links=[0] * 9
    )
    found = refine_colours(alone)
    assert members(found.ranks) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert members(found.meetings[0]) == [[0, 1], [2, 3]]
    assert found.links.of.tolist() == [-1] * 4 + [0, 1, 1] + [-1] * 2
    flow = found.flows[0][0]
    assert [flow.row(0), flow.row(1)] == [{0: 2}, {1: 1}]


def ring(size, lines, slow=None):
    """``lines`` groups of ``size`` hosts, the same hosts in each; host h has a link out and a link in that
    all groups share, and each pair of neighbours in a group a pair of transfers."""
    hosts = np.arange(size)
    groups = [[host * lines + line for host in range(size)] for line in range(lines)]
    every = {int(link): 1 << 20 for link in range(2 * size)}
    links = np.zeros(2 * size, dtype=np.int64)
    links[size:] = 1
    if slow is not None:
        links[slow] = 2
    pairs = [(rank, rank + lines) for rank in range((size - 1) * lines)]
    forth = [{pair[0] // lines: 5, size + pair[1] // lines: 5} for pair in pairs]
    back = [{pair[1] // lines: 5, size + pair[0] // lines: 5} for pair in pairs]
    return structure(
        np.repeat(hosts, lines),
        meetings(groups, rows(*[every] * lines)),
        meetings(pairs, rows(*forth), rows(*back), ordered=True),
        links=links,
    )


@settings(max_examples=80)
@given(data=st.data(), lines=st.integers(1, 4), stages=st.integers(3, 5), ring=st.booleans())
def test_whole_pipelines_change_nothing_that_their_pairs_do_not(data, lines, stages, ring):
    """In a ring, stages are told apart to begin with."""
    ranks = np.arange(lines * stages).reshape(stages, lines)
    pairs = np.stack([ranks, np.roll(ranks, -1, axis=0)], axis=-1)[: stages if ring else stages - 1]
    pairs = pairs.reshape(-1, 2)
    odd = np.array(data.draw(st.lists(st.integers(0, 1), min_size=ranks.size, max_size=ranks.size)))
    unlike = np.array(data.draw(st.lists(st.integers(0, 1), min_size=len(pairs), max_size=len(pairs))))
    together = [ranks[stage].tolist() for stage in range(stages) if data.draw(st.booleans())]
    met = [meetings(pairs.tolist(), colours=unlike.tolist(), ordered=True)]
    met += [meetings([group]) for group in together]
    own = odd + 2 * ring * np.repeat(np.arange(stages), lines)
    alone = structure(own, *met)
    implied = replace(alone, implied=[meetings(ranks.T.tolist(), ordered=True)])
    slow, fast = refine_colours(alone), refine_colours(implied)
    assert np.array_equal(slow.ranks.of, fast.ranks.of)
    assert len(slow.meetings) == len(fast.meetings) == len(met)
    for one, other in zip(slow.meetings, fast.meetings, strict=True):
        assert np.array_equal(one.of, other.of)


def test_different_sums_in_one_bucket_stay_apart(monkeypatch):
    monkeypatch.setattr(colouring, "_BUCKET_BITS", 1)
    found = structure([0] * 8, meetings([[rank] for rank in range(8)], colours=[0, 1, 2, 3, 3, 2, 1, 0]))
    assert refine_colours(found).ranks.of.tolist() == [0, 1, 2, 3, 3, 2, 1, 0]


def test_ring_neighbours_stay_apart_by_stage_and_together_by_line():
    found = refine_colours(ring(4, 3))
    assert members(found.ranks) == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
    assert found.meetings[0].sizes.tolist() == [3]
    assert found.flows[0][0].row(0) == dict.fromkeys(range(8), 3 << 20)
    assert found.flows[1][0].row(0) == {0: 15, 5: 15}
    assert found.flows[1][1].row(0) == {1: 15, 4: 15}


def test_one_slow_link_splits_off_what_it_can_reach_and_no_more():
    """Two pods of four hosts with two devices each; groups stay in their pod, device by device."""
    hosts, groups = 8, [[0, 2, 4, 6], [1, 3, 5, 7], [8, 10, 12, 14], [9, 11, 13, 15]]
    # Links: each device's own to its host's switch, then each host's way out, which both its groups share.
    loads = rows(*([*group, *sorted({16 + rank // 2 for rank in group})] for group in groups))
    inside = meetings(
        [[2 * h, 2 * h + 1] for h in range(hosts)], rows(*([2 * h, 2 * h + 1] for h in range(8)))
    )
    links = np.repeat([0, 1], [16, hosts])
    assert len(refine_colours(structure([0] * 16, meetings(groups, loads), inside, links=links)).ranks) == 1

    slow = links.copy()
    slow[16 + 1] = 2
    found = refine_colours(structure([0] * 16, meetings(groups, loads), inside, links=slow))
    assert members(found.ranks) == [[0, 1, 2, 3, 4, 5, 6, 7], [8, 9, 10, 11, 12, 13, 14, 15]]
    assert found.links.of[17] not in np.delete(found.links.of, 17)

    slow = links.copy()
    slow[3] = 2
    found = refine_colours(structure([0] * 16, meetings(groups, loads), inside, links=slow))
    # Device 3's own link: its host's pair, its group, that group's hosts' pairs; the other pod is untouched.
    assert members(found.ranks)[-1] == [8, 9, 10, 11, 12, 13, 14, 15]
    assert members(found.ranks)[:-1] == [[0, 4, 6], [1, 5, 7], [2], [3]]


def test_a_load_is_a_label_not_a_sum():
    """Two groups that load a link once each, and one that loads it twice, are not the same to the links."""
    found = refine_colours(
        structure([0] * 3, meetings([[0], [1], [2]], rows({0: 1}, {0: 1}, {1: 2})), links=[0, 0])
    )
    assert found.links.of.tolist() == [0, 1]
    assert found.ranks.of.tolist() == [0, 0, 1]


def test_patterns_are_kept_apart():
    """One group gathers over link 0 and reduces over link 1, the other the other way round."""
    one, other = rows([0], [1]), rows([1], [0])
    both = refine_colours(structure([0, 0], meetings([[0], [1]], one, other), links=[0, 0]))
    assert len(both.ranks) == 1
    assert len(both.links) == 1
    apart = refine_colours(structure([0, 0], meetings([[0], [1]], one, other), links=[0, 1]))
    assert apart.ranks.of.tolist() == [0, 1]


def test_loads_may_be_written_as_parts_of_the_largest():
    loads = GroupLoads.of(np.array([0, 2]), np.array([3, 5]), np.array([1.0, 0.75]))
    assert loads.row(0) == {3: 1 << 20, 5: 3 << 18}


def test_separate_classes_are_everything_itself():
    whole = ring(4, 3)
    found = separate_colours(whole)
    assert found.ranks.of.tolist() == list(range(12))
    assert [len(each) for each in found.meetings] == [3, 9]
    assert found.links.of.tolist() == list(range(8))
    for meet, flows in zip(whole.meetings, found.flows, strict=True):
        for loads, flow in zip(meet.loads, flows, strict=True):
            assert [flow.row(group) for group in range(len(meet))] == [
                loads.row(group) for group in range(len(meet))
            ]


def test_words_that_collide_are_noticed(monkeypatch):
    """If every colour and label had the same word, unequal links would be taken for equal."""
    monkeypatch.setattr(colouring, "hash_words", lambda numbers, salt: np.ones(len(numbers), dtype=np.uint64))
    with pytest.raises(SimulationError, match="taken for equal"):
        refine_colours(structure([0], meetings([[0]], rows({0: 1, 1: 2})), links=[0, 0]))


def test_sixteen_thousand_ranks_take_one_pass_over_their_loads():
    """A fabric of one switch: 16 stages of 128 hosts with 8 devices, a card each."""
    ranks = np.arange(16384).reshape(16, 128, 8)
    tensor, data = ranks.reshape(-1, 8), ranks.transpose(0, 2, 1).reshape(-1, 128)
    pairs = np.stack([ranks[:-1].ravel(), ranks[1:].ravel()], axis=1)

    def over(members, start):
        """A link out and a link in of every member."""
        links = np.concatenate([members + start, members + start + 16384], axis=1)
        offsets = np.arange(len(members) + 1) * links.shape[1]
        return GroupLoads(offsets, links.ravel(), np.full(links.size, 1 << 20))

    def sent(src, dst):
        links = np.stack([src + 32768, dst + 49152], axis=1)
        return GroupLoads(np.arange(len(src) + 1) * 2, links.ravel(), np.full(links.size, 1 << 20))

    def built(links):
        return structure(
            ranks.ravel() // 1024,
            meetings(tensor, over(tensor, 0)),
            meetings(data, over(data, 32768)),
            meetings(pairs, sent(*pairs.T), sent(*pairs.T[::-1]), ordered=True),
            links=links,
        )

    links = np.repeat(np.arange(4), 16384)
    found = refine_colours(built(links))
    assert [len(found.ranks), *map(len, found.meetings), len(found.links)] == [16, 16, 16, 15, 64]
    assert found.rounds == 1
    slow = links.copy()
    slow[32768 + 5000] = 9
    found = refine_colours(built(slow))
    # In the data group of its card, its host's tensor group, and the lines of both through all stages.
    assert [len(found.ranks), found.rounds] == [64, 2]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: GroupLoads(np.array([0, 2]), np.array([1]), np.array([1])), "offsets must run"),
        (lambda: GroupLoads(np.array([0, 2, 1, 2]), np.array([1, 2]), np.array([1, 1])), "not decrease"),
        (lambda: rows({0: 0}), "at least 1"),
        (lambda: GroupLoads.of(np.array([0, 1]), np.array([0]), np.array([1 / 3])), "not a multiple of 2"),
        (lambda: meetings([[0, 1]], rows([0], [1])), "a row in each pattern"),
        (lambda: meetings([[0, 1], [1, 2]]), "more than one of the groups"),
        (lambda: structure([0], meetings([[0, 1]])), "not one of the ranks"),
        (lambda: structure([0], meetings([[0]], rows([2])), links=[0, 0]), "not one of the links"),
    ],
)
def test_what_does_not_fit_together_is_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()
