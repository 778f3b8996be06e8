"""Halving and doubling: closed forms, and never chosen unasked."""

from __future__ import annotations

from math import ceil, log2

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.cluster import host_names, load_cluster
from simcluster.collectives import Operation, all_algorithms, collective_time
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

KIND = "halving_doubling"
OPERATIONS = sorted(all_algorithms()[KIND].operations - {Operation.BARRIER})


@given(st.integers(2, 64), st.sampled_from(OPERATIONS), st.integers(0, 10**12))
@settings(max_examples=40)
def test_on_one_host_it_takes_logarithmic_rounds_and_a_rings_bytes(ranks, operation, size):
    found = collective_time(operation, even(1, ranks, BIG), size, BIG, KIND)
    passes = 2 if operation is Operation.ALL_REDUCE else 1
    assert found.latency == pytest.approx(BASE + passes * ceil(log2(ranks)) * HOST_HOP)
    ring = collective_time(operation, even(1, ranks, BIG), size, BIG, "ring")
    assert found.transfer == pytest.approx(ring.transfer)


@given(st.integers(2, 64), st.integers(0, 10**12))
@settings(max_examples=40)
def test_with_one_rank_per_host_everything_crosses_the_network(hosts, size):
    found = collective_time(Operation.ALL_REDUCE, even(hosts, 1), size, PLAIN, KIND)
    rounds = 2 * ceil(log2(hosts))
    sent = 2 * (hosts - 1) / hosts * size
    assert found.seconds == pytest.approx(BASE + rounds * NETWORK_HOP + sent / NETWORK_RATE)


def test_hosts_of_eight_with_a_card_each():
    """4 x 8 ranks: skips 16 and 8 leave the host; of 4, 2, 1 the last ranks leave it, the first stay."""
    found = collective_time(Operation.REDUCE_SCATTER, even(4, 8), 32.0, PLAIN, KIND)
    seconds = [
        [max(a / HOST_RATE, b / NETWORK_RATE) for a, b in rounds]
        for rounds in (
            [(0, 16), (0, 8), (4, 4), (2, 2), (1, 1)],
            [(0, 64), (0, 32), (4, 16), (2, 4), (1, 1)],
        )
    ]
    assert found.transfer == pytest.approx(sum(seconds[0]))
    shared = plain(nics=2)
    found = collective_time(Operation.REDUCE_SCATTER, even(4, 8, shared), 32.0, shared, KIND)
    assert found.transfer == pytest.approx(sum(seconds[1]))


def test_an_odd_number_needs_no_extra_round():
    found = collective_time(Operation.ALL_GATHER, even(1, 7), 7.0, PLAIN, KIND)
    assert sum(each.num_bytes for each in found.phases) == pytest.approx(1 + 2 + 3)
    assert found.latency == pytest.approx(BASE + 3 * HOST_HOP)


@pytest.mark.combinations
@pytest.mark.parametrize("host", host_names())
@pytest.mark.parametrize("operation", OPERATIONS)
def test_it_is_never_chosen_unasked(host, operation):
    """Even where it would be faster, as for small messages between many hosts."""
    cluster = load_cluster(host, 64)
    where = cluster.placement(range(cluster.num_devices))
    for size in (1 << 10, 1 << 20, 1 << 30):
        assert collective_time(operation, where, size, cluster).algorithm != KIND
        assert collective_time(operation, where, size, cluster, KIND).algorithm == KIND


def test_it_would_be_faster_somewhere():
    """So that the test above can fail."""
    cluster = load_cluster("dgx-h100", 64)
    where = cluster.placement(range(cluster.num_devices))
    named, auto = (
        collective_time(Operation.ALL_GATHER, where, 1 << 10, cluster, kind).seconds
        for kind in (KIND, "auto")
    )
    assert named < auto
