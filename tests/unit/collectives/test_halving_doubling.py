"""Halving and doubling: closed forms, and never chosen unasked."""

from __future__ import annotations

from math import ceil, log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.cluster import Level, Span, host_names, load_cluster
from simcluster.collectives import Operation, all_algorithms, collective_time
from tests.unit.collectives.test_cost import BASE, HOST_HOP, NETWORK_HOP, NETWORK_RATE, PLAIN

KIND = "halving_doubling"
OPERATIONS = sorted(all_algorithms()[KIND].operations)


@given(st.integers(2, 5000), st.sampled_from(OPERATIONS), st.integers(0, 10**12))
def test_on_one_host_it_takes_logarithmic_rounds_and_a_rings_bytes(ranks, operation, size):
    found = collective_time(operation, Span.even(1, ranks), size, PLAIN, KIND)
    passes = 2 if operation is Operation.ALL_REDUCE else 1
    assert found.latency == pytest.approx(BASE + passes * ceil(log2(ranks)) * HOST_HOP)
    ring = collective_time(operation, Span.even(1, ranks), size, PLAIN, "ring")
    assert found.transfer == pytest.approx(ring.transfer)


@given(st.integers(2, 64), st.integers(0, 10**12))
def test_with_one_rank_per_host_everything_crosses_the_network(hosts, size):
    found = collective_time(Operation.ALL_REDUCE, Span.even(hosts, 1), size, PLAIN, KIND)
    rounds = 2 * ceil(log2(hosts))
    sent = 2 * (hosts - 1) / hosts * size
    assert found.seconds == pytest.approx(BASE + rounds * NETWORK_HOP + sent / NETWORK_RATE)


def test_hosts_of_eight_with_a_card_each():
    """4 x 8 ranks: skips 16 and 8 leave the host; of 4, 2, 1 the last ranks leave it, the first stay."""
    steps = all_algorithms()[KIND].steps(Operation.REDUCE_SCATTER, Span.even(4, 8), 32.0)
    assert [(step.repeat, step.latency) for step in steps] == [(1, Level.NETWORK)] * 5
    assert [step.loads for step in steps] == [(0, 16), (0, 8), (4, 4), (2, 2), (1, 1)]
    shared = all_algorithms()[KIND].steps(Operation.REDUCE_SCATTER, Span.even(4, 8, 2), 32.0)
    assert [step.loads for step in shared] == [(0, 64), (0, 32), (4, 16), (2, 4), (1, 1)]


def test_an_odd_number_needs_no_extra_round():
    steps = all_algorithms()[KIND].steps(Operation.ALL_GATHER, Span.even(1, 7), 7.0)
    assert [step.loads[Level.HOST] for step in steps] == [1, 2, 3]


@pytest.mark.parametrize("host", host_names())
@pytest.mark.parametrize("operation", OPERATIONS)
def test_it_is_never_chosen_unasked(host, operation):
    """Even where it would be faster, as for small messages between many hosts."""
    cluster = load_cluster(host, 64)
    span = cluster.span(range(cluster.num_devices))
    for size in (1 << 10, 1 << 20, 1 << 30):
        assert collective_time(operation, span, size, cluster).algorithm != KIND
        assert collective_time(operation, span, size, cluster, KIND).algorithm == KIND


def test_it_would_be_faster_somewhere():
    """So that the test above can fail."""
    cluster = load_cluster("dgx-h100", 64)
    span = cluster.span(range(cluster.num_devices))
    named, auto = (
        collective_time(Operation.ALL_GATHER, span, 1 << 10, cluster, kind).seconds for kind in (KIND, "auto")
    )
    assert named < auto
