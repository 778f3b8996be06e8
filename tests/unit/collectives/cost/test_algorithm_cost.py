"""What collectives cost: closed forms on a plain cluster, and published measurements on real ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.cluster import (
    Cluster,
    Protocol,
    ShareByCount,
    Wiring,
    load_cluster,
)
from simcluster.collectives import Operation, collective_time
from simcluster.errors import PlanError, ScenarioError
from tests.support.collective_costs import (
    BASE,
    BIG,
    HOST_HOP,
    HOST_RATE,
    NETWORK_HOP,
    NETWORK_RATE,
    PLAIN,
    even,
    plain,
)

MIB = 2**20


@given(st.integers(2, 64), st.integers(0, 10**12))
@settings(max_examples=40)
def test_a_ring_on_one_host(ranks, num_bytes):
    span = even(1, ranks, BIG)
    reduce = collective_time(Operation.ALL_REDUCE, span, num_bytes, BIG, "ring")
    steps = 2 * (ranks - 1)
    assert reduce.seconds == pytest.approx(BASE + steps * HOST_HOP + steps / ranks * num_bytes / HOST_RATE)
    assert reduce.latency == pytest.approx(BASE + steps * HOST_HOP)
    for operation in (Operation.ALL_GATHER, Operation.REDUCE_SCATTER):
        half = collective_time(operation, span, num_bytes, BIG, "ring")
        assert half.seconds - BASE == pytest.approx((reduce.seconds - BASE) / 2)


@given(st.integers(2, 64), st.integers(1, 8), st.integers(0, 10**12))
@settings(max_examples=40)
def test_a_ring_over_hosts_waits_for_the_network_only_where_it_leaves_a_host(hosts, mates, num_bytes):
    ranks = hosts * mates
    found = collective_time(Operation.ALL_REDUCE, even(hosts, mates), num_bytes, PLAIN, "ring")
    hops = 2 * (hosts - 1) * NETWORK_HOP + 2 * (ranks - hosts) * HOST_HOP
    inside = num_bytes / ranks * (mates - 1) / mates / HOST_RATE
    between = num_bytes / ranks / mates / NETWORK_RATE
    assert found.seconds == pytest.approx(BASE + hops + 2 * (ranks - 1) * max(inside, between))


def test_rates_by_ranks_and_hosts_are_those_of_the_table_and_latencies_stay():
    fabric = replace(PLAIN.host.fabric, by_ranks=ShareByCount(((4, 1.0), (8, 0.25))))
    network = replace(PLAIN.host.network, by_hosts=ShareByCount(((4, 1.0), (64, 0.25))))
    crowded = Cluster.of(replace(PLAIN.host, fabric=fabric, network=network), 2048)

    def stretch(hosts, mates, operation=Operation.ALL_GATHER, algorithm="ring"):
        full, less = (
            collective_time(operation, even(hosts, mates, cluster), 2**30, cluster, algorithm)
            for cluster in (PLAIN, crowded)
        )
        assert less.latency == full.latency
        return less.transfer / full.transfer

    assert [stretch(1, mates) for mates in (2, 4, 8)] == pytest.approx([1, 1, 4])
    assert [stretch(hosts, 1) for hosts in (2, 4, 16, 64, 1024)] == pytest.approx([1, 1, 2, 4, 4])
    assert stretch(64, 1, Operation.ALL_TO_ALL, "pairwise") == pytest.approx(4)
    # Eight ranks on a host: 7/8 over 1e11 inside, 1/8 over 1e10 between; then 4 and 2 times that.
    assert stretch(16, 8) == pytest.approx(4 * 0.875 / 1.25)


def test_fewer_rails_carry_more_each():
    wide, narrow = (
        collective_time(Operation.ALL_REDUCE, even(4, 8, cluster), 2**30, cluster, "ring")
        for cluster in (PLAIN, plain(nics=2))
    )
    assert narrow.transfer == pytest.approx(4 * wide.transfer)


def test_a_ring_broadcast_streams_behind_its_first_byte():
    found = collective_time(Operation.BROADCAST, even(1, 8), 1e9, PLAIN)
    assert found.seconds == pytest.approx(BASE + 7 * HOST_HOP + 1e9 / HOST_RATE)


@given(st.sampled_from([2, 4, 8, 16, 64, 1024]), st.integers(1, 8), st.integers(0, 10**12))
@settings(max_examples=40)
def test_a_tree_has_logarithmic_latency_and_sends_twice_the_data(hosts, mates, num_bytes):
    found = collective_time(Operation.ALL_REDUCE, even(hosts, mates), num_bytes, PLAIN, "tree")
    depth = int(np.log2(hosts))
    assert found.latency == pytest.approx(BASE + 2 * (mates - 1) * HOST_HOP + 2 * depth * NETWORK_HOP)
    sends = 1 if hosts == 2 else 2
    inside = num_bytes * (2 - 2 / mates) / HOST_RATE
    assert found.transfer == pytest.approx(max(inside, sends * num_bytes / mates / NETWORK_RATE))


def test_two_hosts_reduce_in_a_tree_with_about_half_the_network_traffic_of_a_ring():
    ring, tree = (
        collective_time(Operation.ALL_REDUCE, even(2, 8), 2**30, PLAIN, kind).transfer
        for kind in ("ring", "tree")
    )
    assert ring == pytest.approx(2 * 15 / 16 * 2**30 / 8 / NETWORK_RATE)
    assert tree == pytest.approx(2**30 * max(1 / 8 / NETWORK_RATE, (2 - 2 / 8) / HOST_RATE))


def test_trees_between_few_hosts_save_nothing_on_shared_cards():
    shared = plain(nics=2)
    ring, tree = (
        collective_time(Operation.ALL_REDUCE, even(2, 8, shared), 2**30, shared, name).transfer
        for name in ("ring", "tree")
    )
    assert ring == pytest.approx(2 * 15 / 16 * 2**30 / 2 / NETWORK_RATE)
    assert tree == pytest.approx(2 * 2**30 / 2 / NETWORK_RATE)
    assert collective_time(Operation.ALL_REDUCE, even(2, 8, shared), 2**30, shared).algorithm == "ring"


def test_all_to_all_sends_each_peer_its_block():
    inside = collective_time(Operation.ALL_TO_ALL, even(1, 8), 1e9, PLAIN)
    assert inside.seconds == pytest.approx(BASE + 7 * HOST_HOP + 7 / 8 * 1e9 / HOST_RATE)
    across = collective_time(Operation.ALL_TO_ALL, even(2, 8), 1e9, PLAIN)
    assert across.latency == pytest.approx(BASE + 7 * HOST_HOP + 8 * NETWORK_HOP)
    assert across.transfer == pytest.approx(8 / 16 * 1e9 / NETWORK_RATE)


def test_a_transfer_takes_its_level():
    inside = collective_time(Operation.SEND_RECEIVE, even(1, 2), 1e9, PLAIN)
    across = collective_time(Operation.SEND_RECEIVE, even(2, 1), 1e9, PLAIN)
    assert inside.seconds == pytest.approx(BASE + HOST_HOP + 1e9 / HOST_RATE)
    assert across.seconds == pytest.approx(BASE + NETWORK_HOP + 1e9 / NETWORK_RATE)


def test_a_full_mesh_gets_wider_with_the_group():
    # Mesh all-reduce as HCCL documents it: 2 S / p over one link, less where the ring's latency counts.
    mesh = plain(Wiring.FULL_MESH)
    for ranks in (2, 4, 8):
        found = collective_time(Operation.ALL_REDUCE, even(1, ranks, mesh), 1e12, mesh, "ring")
        assert found.transfer == pytest.approx(2 / ranks * 1e12 / HOST_RATE)


def test_auto_takes_the_fastest_algorithm():
    small = collective_time(Operation.ALL_REDUCE, even(64, 8), 1024, PLAIN)
    large = collective_time(Operation.ALL_REDUCE, even(64, 8), 2**36, PLAIN)
    assert (small.algorithm, large.algorithm) == ("tree", "ring")
    for size, auto in ((1024, small), (2**36, large)):
        each = [
            collective_time(Operation.ALL_REDUCE, even(64, 8), size, PLAIN, kind) for kind in ("ring", "tree")
        ]
        assert auto == min(each, key=lambda choice: choice.seconds)


def test_the_fastest_protocol_is_taken_and_an_algorithm_may_have_its_own():
    eager, bulk = Protocol("eager", 1e-6, (0, 0), (0.1, 0.1)), Protocol("bulk", 9e-6, (0, 0), (1.0, 1.0))
    cluster = plain(
        protocols={"default": (eager, bulk), "tree": (Protocol("slow", 1.0, (0, 0), (1.0, 1.0)),)}
    )
    span = even(1, 8, cluster)
    assert collective_time(Operation.ALL_REDUCE, span, 8, cluster).protocol == "eager"
    assert collective_time(Operation.ALL_REDUCE, span, 10**9, cluster).protocol == "bulk"
    assert collective_time(Operation.ALL_REDUCE, span, 8, cluster, "tree").protocol == "slow"
    tenth = collective_time(Operation.ALL_REDUCE, span, 8, cluster)
    assert tenth.transfer == pytest.approx(14 / 8 * 8 / (0.1 * HOST_RATE))


def test_one_rank_has_nothing_to_do():
    found = collective_time(Operation.ALL_REDUCE, even(1, 1), 10**9, PLAIN)
    assert (found.seconds, found.duration_ns, found.phases) == (0.0, 0, ())


def test_a_duration_is_rounded_once():
    found = collective_time(Operation.ALL_REDUCE, even(1, 3), 1, PLAIN)
    assert found.duration_ns == round((found.latency + found.transfer) * 1e9)


@pytest.mark.parametrize(
    ("operation", "ranks", "algorithm", "error", "message"),
    [
        (Operation.ALL_REDUCE, 8, "rings", ScenarioError, "unknown algorithm 'rings'\n.*did you mean 'ring'"),
        (Operation.ALL_TO_ALL, 8, "ring", PlanError, "'ring' cannot do all_to_all"),
        (Operation.SEND_RECEIVE, 3, "auto", PlanError, "no algorithm can do send_receive for 3 ranks"),
    ],
)
def test_what_cannot_be_done_is_said(operation, ranks, algorithm, error, message):
    with pytest.raises(error, match=message):
        collective_time(operation, even(1, ranks), 8, PLAIN, algorithm)


# Bus bandwidth in GB/s of large messages on one host: stas00/ml-engineering, network/benchmarks (2026-08).
@pytest.mark.parametrize(("host", "measured"), [("dgx-h100", 367.6), ("dgx-a100", 234.9)])
def test_the_ceiling_of_a_ring_of_eight(host, measured):
    size = 16 * 2**30
    found = collective_time(
        Operation.ALL_REDUCE, load_cluster(host).placement(range(8)), size, load_cluster(host), "ring"
    )
    assert 2 * 7 / 8 * size / found.seconds / 1e9 == pytest.approx(measured, rel=0.03)


# Microseconds on one host of small messages (512 B): nccl-tests in ai-dynamo/aiconfigurator (2026-08).
@pytest.mark.parametrize(
    ("host", "operation", "ranks", "measured"),
    [
        ("dgx-h100", Operation.ALL_REDUCE, 2, 6.2),
        ("dgx-h100", Operation.ALL_REDUCE, 4, 9.5),
        ("dgx-h100", Operation.ALL_REDUCE, 8, 15.6),
        ("dgx-h100", Operation.ALL_GATHER, 8, 10.1),
        ("dgx-h100", Operation.ALL_TO_ALL, 8, 7.4),
        ("dgx-a100", Operation.ALL_REDUCE, 2, 10),
        ("dgx-a100", Operation.ALL_REDUCE, 4, 14.5),
        ("dgx-a100", Operation.ALL_REDUCE, 8, 22.6),
        ("dgx-a100", Operation.REDUCE_SCATTER, 8, 15.6),
        ("dgx-a100", Operation.ALL_TO_ALL, 8, 15.8),
    ],
)
def test_small_messages_on_one_host(host, operation, ranks, measured):
    cluster = load_cluster(host)
    found = collective_time(operation, cluster.placement(range(ranks)), 512, cluster)
    assert found.seconds * 1e6 == pytest.approx(measured, rel=0.27)


# GB/s of S / t on one 910B host: gameofdimension/limulidae.
@pytest.mark.parametrize(("ranks", "reduce", "gather"), [(2, 18, 38), (4, 30, 64), (8, 72, 149)])
def test_an_ascend_full_mesh(ranks, reduce, gather):
    cluster, size = load_cluster("atlas-800t-a2"), 2**32
    found = collective_time(Operation.ALL_REDUCE, cluster.placement(range(ranks)), size, cluster)
    assert size / found.seconds / 1e9 == pytest.approx(reduce, rel=0.23)
    found = collective_time(Operation.ALL_GATHER, cluster.placement(range(ranks)), size, cluster)
    assert size / found.seconds / 1e9 == pytest.approx(gather, rel=0.16)


@pytest.mark.parametrize("ranks", [2048 * 8])
def test_all_ranks_of_a_large_cluster(ranks):
    cluster = load_cluster("dgx-h100", hosts=2048)
    span = cluster.placement(np.arange(ranks))
    found = collective_time(Operation.ALL_REDUCE, span, 64 * MIB, cluster)
    assert found.algorithm == "tree"
    assert 0 < found.seconds < 0.01


@pytest.mark.parametrize("hosts", [3, 5])
def test_a_ring_over_an_odd_number_of_hosts_crosses_rails_at_the_full_rate(hosts):
    cluster = load_cluster("dgx-a100", hosts + 1)
    rates = [
        1
        / collective_time(Operation.ALL_GATHER, cluster.placement(range(8 * count)), 2**36, cluster).transfer
        for count in (hosts, hosts + 1)
    ]
    assert rates[0] == pytest.approx(rates[1], rel=0.02)
