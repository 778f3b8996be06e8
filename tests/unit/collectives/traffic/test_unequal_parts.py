"""Parts of different sizes: loads and times are those of the parts themselves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from simcluster.cluster import load_cluster
from simcluster.collectives import (
    Operation,
    UnequalParts,
    UnequalPartsByGroup,
    algorithm_routine,
    all_algorithms,
    collective_time,
    group_loads_of,
    group_site_of,
)
from simcluster.collectives.traffic.imbalance import Imbalance
from simcluster.collectives.traffic.link_loads import phases
from tests.support.collective_costs import BASE, HOST_HOP, HOST_RATE, NETWORK_HOP, NETWORK_RATE, PLAIN, even

V = Operation.ALL_TO_ALL_V
KINDS = ("pairwise", "direct", "hierarchical")
CLUSTERS = {
    name: load_cluster(name, hosts)
    for name, hosts in {"dgx-h100": 40, "dgx-a100": 6, "dgx-1v": 3, "atlas-800t-a2": 3, "l40s-8": 3}.items()
}


def hot(ranks: int, to: int, size: int = 1) -> UnequalParts:
    """Every rank sends all it has to one."""
    counts = np.zeros((ranks, ranks), dtype=np.int64)
    counts[:, to] = size
    return UnequalParts.of(counts)


@st.composite
def groups(draw):
    """A cluster, some of its ranks in any order, and a table for them."""
    cluster = CLUSTERS[draw(st.sampled_from(sorted(CLUSTERS)))]
    size = cluster.host.num_devices
    hosts = draw(st.lists(st.integers(0, cluster.num_hosts - 1), min_size=1, max_size=4, unique=True))
    places = draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=4, unique=True))
    ranks = [host * size + place for host in hosts for place in places]
    if len(ranks) < 2:
        ranks = [0, cluster.num_devices - 1]
    if draw(st.booleans()):
        ranks = draw(st.permutations(ranks))
    some = st.integers(0, draw(st.sampled_from([1, 10**9])))
    counts = draw(arrays(np.int64, (len(ranks), len(ranks)), elements=some))
    counts[draw(st.integers(0, len(ranks) - 1)), 0] += 1
    return cluster, ranks, counts


def carried(cluster, ends) -> dict[int, int]:
    """By link the bytes that pass it, if ``ends`` are (rank, rank, bytes)."""
    found: dict[int, int] = {}
    for src, dst, size in ends:
        if src != dst and size:
            (way,) = cluster.topology.routes(np.array([src]), np.array([dst])).links
            for link in way[way >= 0].tolist():
                found[link] = found.get(link, 0) + int(size)
    return found


def journeys(kind, cluster, ranks, counts):
    """What every phase of an algorithm sends, by the definition of the algorithm."""
    each = [(src, dst, counts[i, j]) for i, src in enumerate(ranks) for j, dst in enumerate(ranks) if i != j]
    if kind != "hierarchical":
        return [each]
    hosts = cluster.hosts_of(np.array(ranks))
    columns = [
        [rank for rank, at in zip(ranks, hosts, strict=True) if at == host] for host in dict.fromkeys(hosts)
    ]
    place = {rank: row.index(rank) for row in columns for rank in row}
    row_of = {rank: row for row in columns for rank in row}
    relay = [(src, row_of[src][place[dst]], dst, size) for src, dst, size in each]
    legs = [
        [(src, via, size) for src, via, _, size in relay],
        [(via, dst, size) for _, via, dst, size in relay],
    ]
    return legs if len(columns[0]) > 1 else legs[1:]


@settings(max_examples=30)
@given(groups(), st.sampled_from(KINDS))
def test_every_link_carries_what_is_sent_over_it(group, kind):
    cluster, ranks, counts = group
    placement = cluster.placement(ranks)
    where = group_site_of(placement, cluster)
    if not all_algorithms()[kind].supports(V, where):
        return
    parts = UnequalParts.of(counts)
    steps = algorithm_routine(kind, V, placement, cluster)
    found = list(phases(steps, where, np.array([ranks]), cluster.topology, parts))
    wanted = [carried(cluster, ends) for ends in journeys(kind, cluster, ranks, counts)]
    if len(found) < len(wanted):  # adjacent phases that load alike are one
        wanted = [{link: sum(each.get(link, 0) for each in wanted) for each in wanted for link in each}]
    for got, want in zip(found, wanted, strict=True):
        sizes = (got.network + got.inside) * counts.sum() / len(ranks)
        assert got.links.tolist() == sorted(want)
        assert sizes == pytest.approx([want[link] for link in got.links.tolist()])


@settings(max_examples=25)
@given(groups(), st.sampled_from(KINDS))
def test_no_collective_is_faster_than_its_most_loaded_link(group, kind):
    cluster, ranks, counts = group
    placement = cluster.placement(ranks)
    if not all_algorithms()[kind].supports(V, group_site_of(placement, cluster)):
        return
    mean = counts.sum() / len(ranks)
    found = collective_time(V, placement, mean, cluster, kind, UnequalParts.of(counts))
    slowest = 0.0
    for ends in journeys(kind, cluster, ranks, counts):
        sizes = carried(cluster, ends)
        rates = cluster.topology.rates(np.array(sorted(sizes), dtype=np.int64))
        slowest += max(
            (sizes[link] / rate for link, rate in zip(sorted(sizes), rates, strict=True)), default=0
        )
    assert found.transfer >= slowest * (1 - 1e-12)


@pytest.mark.parametrize("kind", ["auto", *KINDS])
@pytest.mark.parametrize("name", sorted(CLUSTERS))
def test_equal_parts_take_as_long_as_the_plain_all_to_all(kind, name):
    cluster = CLUSTERS[name]
    placement = cluster.placement(range(2 * cluster.host.num_devices))
    even_parts = UnequalParts.of(np.full((placement.num_ranks,) * 2, 3))
    for size in (1, 1000, 2**20, 2**33 + 1):
        plain = collective_time(Operation.ALL_TO_ALL, placement, size, cluster, kind)
        assert collective_time(V, placement, size, cluster, kind, even_parts) == plain
        # What stays where it is passes no link: listing every send then gives the counted exchange.
        kept = np.full((placement.num_ranks,) * 2, 2**20)
        kept[0, 0] -= 1
        almost = UnequalParts(kept, 1 / placement.num_ranks / 2**20)
        assert not almost.is_even
        assert collective_time(V, placement, size, cluster, kind, almost).duration_ns == plain.duration_ns


@settings(max_examples=30)
@given(st.integers(2, 64), st.integers(1, 10**9), st.data())
def test_one_hot_rank_is_an_incast_on_its_card(hosts, size, data):
    to = data.draw(st.integers(0, hosts - 1))
    found = collective_time(V, even(hosts, 1), size, PLAIN, "pairwise", hot(hosts, to))
    waits = BASE + (hosts - 1) * NETWORK_HOP
    assert found.seconds == pytest.approx(waits + (hosts - 1) * size / NETWORK_RATE)
    (phase,) = found.phases
    assert phase.num_bytes == pytest.approx((hosts - 1) * size) and phase.cap == pytest.approx(NETWORK_RATE)


def test_one_hot_rank_inside_a_host_is_an_incast_on_its_port():
    found = collective_time(V, even(1, 8), 1e9, PLAIN, "direct", hot(8, 5))
    assert found.seconds == pytest.approx(BASE + HOST_HOP + 7e9 / HOST_RATE)


def test_the_hierarchy_meets_a_hot_rank_on_its_rail():
    """All of a host is for one place: its mates send it theirs, and its card carries all of the host."""
    hosts, mates = 4, 8
    found = collective_time(V, even(hosts, mates), 1e9, PLAIN, "hierarchical", hot(hosts * mates, 0))
    inside, across = (mates - 1) * 1e9 / HOST_RATE, (hosts - 1) * mates * 1e9 / NETWORK_RATE
    assert found.transfer == pytest.approx(inside + across)


def test_only_what_stays_takes_no_link():
    kept = UnequalParts.of(np.diag([1, 2, 3, 4]))
    found = collective_time(V, even(4, 1), 10**9, PLAIN, "pairwise", kept)
    assert found.phases == () and found.seconds == pytest.approx(BASE + 3 * NETWORK_HOP)
    cluster = CLUSTERS["dgx-h100"]
    where = cluster.placement([0, 8, 16, 24])
    copied = [
        collective_time(V, where, 10**9, cluster, "pairwise", UnequalParts.of(np.diag(d)))
        for d in ([1, 1, 1, 1], [1, 1, 1, 5])
    ]
    protocol = cluster.host.protocols_of("pairwise")[0]
    all_links = cluster.host.fabric.link.rate * protocol.shares[0]
    assert [each.protocol for each in copied] == [protocol.name] * 2
    assert copied[1].latency - copied[0].latency == pytest.approx(protocol.own * 1.5e9 / all_links)


def test_one_table_loads_each_group_as_it_would_alone():
    cluster = CLUSTERS["dgx-h100"]
    members = np.array([[0, 8, 16], [3, 11, 19], [263, 271, 279]])
    placement = cluster.placement(members[0])
    parts = UnequalParts.of(np.array([[0, 5, 1], [2, 0, 0], [7, 7, 9]]))
    where, steps = group_site_of(placement, cluster), algorithm_routine("pairwise", V, placement, cluster)
    (together,) = group_loads_of(steps, where, members, cluster.topology, parts)
    for index, row in enumerate(members):
        (alone,) = group_loads_of(steps, where, row[np.newaxis], cluster.topology, parts)
        mine = slice(*together.offsets[index : index + 2])
        assert np.array_equal(together.links[mine], alone.links)
        assert np.array_equal(together.loads[mine], alone.loads)
        assert together.scale[index] == alone.scale[0]


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        (np.ones((2, 3), dtype=np.int64), "a row and a column for each rank"),
        (np.ones((2, 2)), "whole numbers"),
        (np.array([[1, -1], [1, 1]]), "negative"),
        (np.zeros((2, 2), dtype=np.int64), "no rank has anything"),
        (np.full((2, 2), 2**52), "below 2\\^53"),
    ],
)
def test_what_is_no_table_is_refused(counts, message):
    with pytest.raises(ValueError, match=message):
        UnequalParts.of(counts)


def test_parts_are_for_one_operation_and_as_many_ranks():
    for operation, ranks in ((Operation.ALL_TO_ALL, 4), (V, 3)):
        with pytest.raises(ValueError, match="parts of 4 ranks are not those of"):
            collective_time(operation, even(ranks, 1), 8, PLAIN, parts=hot(4, 0))


def test_groups_share_equal_tables_and_one_mean():
    one, other = np.array([[1, 3], [0, 2]]), np.array([[2, 2], [2, 12]])
    parts = UnequalPartsByGroup.of(np.stack([one, other, one]))
    assert parts.of_group == (0, 1, 0) and len(parts.tables) == 2
    assert parts.of_number(2) is parts.of_number(0)
    # 30 counts on 6 ranks: S stands for 5 of them.
    assert all(table.share == pytest.approx(1 / 5) for table in parts.tables)
    same = UnequalPartsByGroup.of([one, other, one])
    assert parts == same and hash(parts) == hash(same) and parts.digest() == same.digest()
    turned = UnequalPartsByGroup.of([other, one, one])
    assert parts != turned and parts.digest() != turned.digest()
    with pytest.raises(ValueError, match="not \\(2, 2\\)"):
        UnequalPartsByGroup.of(one)


def test_laws_are_drawn_from_their_seed():
    zipf = Imbalance.parse("zipf:1", 7).counts(8)
    assert (zipf == zipf[0]).all() and np.array_equal(zipf, Imbalance.parse("zipf:1", 7).counts(8))
    assert not np.array_equal(zipf, Imbalance.parse("zipf:1", 8).counts(8))
    assert np.sort(zipf[0])[::-1] / zipf.max() == pytest.approx(1 / np.arange(1, 9), rel=1e-5)
    normal = Imbalance.parse("normal:0.1", 1).counts(100) / 2**20
    assert normal.mean() == pytest.approx(1, abs=0.01) and normal.std() == pytest.approx(0.1, rel=0.05)
    assert Imbalance.parse("normal:9", 1).counts(50).min() == 0
    for law in ("uniform", "zipf:0", "normal:0"):
        assert Imbalance.parse(law).parts(6).is_even
    assert not Imbalance.parse("zipf:0.1").parts(6).is_even


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("zip:1", "'zip' is not a known distribution"),
        ("zipf", "zipf needs a number"),
        ("uniform:1", "write uniform"),
        ("zipf:x", "'x' is not a number"),
        ("zipf:-1", "not between 0 and 100"),
        ("normal:nan", "not between 0 and 100"),
    ],
)
def test_what_is_no_law_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        Imbalance.parse(text)
