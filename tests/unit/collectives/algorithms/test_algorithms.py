"""Closed forms of the algorithms that libraries document: waits, and bytes on the links that matter."""

from __future__ import annotations

from math import ceil, log2

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.cluster import Cluster, Protocol, Wiring, load_cluster
from simcluster.collectives import CollectiveRequest, Operation, collective_time
from simcluster.collectives.patterns.rings_and_chains import disjoint_cycles
from simcluster.errors import PlanError
from tests.contracts.collective_cases import CUBE_MESH
from tests.support.collective_costs import (
    BASE,
    HOST_HOP,
    HOST_RATE,
    NETWORK_HOP,
    NETWORK_RATE,
    PLAIN,
    even,
    plain,
)

MESH = plain(Wiring.FULL_MESH)
HALVES = {Operation.ALL_REDUCE: 2, Operation.ALL_GATHER: 1, Operation.REDUCE_SCATTER: 1}
operations = st.sampled_from(sorted(HALVES))
sizes = st.integers(1, 10**12)


@given(st.integers(2, 8), operations, sizes)
def test_a_mesh_takes_one_wait_and_a_block_over_each_link(ranks, operation, size):
    """HCCL: alpha + n/p beta; all-reduce twice that."""
    found = collective_time(operation, even(1, ranks, MESH), size, MESH, "direct")
    waits = HALVES[operation]
    assert found.seconds == pytest.approx(BASE + waits * (HOST_HOP + size / ranks / HOST_RATE))


@given(st.integers(2, 70), operations, sizes)
@settings(max_examples=40)
def test_nhr_takes_logarithmic_waits_and_a_rings_bytes(hosts, operation, size):
    """HCCL: rounded-up log2 p alpha + (p - 1)/p n beta."""
    found = collective_time(operation, even(hosts, 1), size, PLAIN, "nhr")
    waits = HALVES[operation] * ceil(log2(hosts))
    sent = HALVES[operation] * (hosts - 1) / hosts * size
    assert found.seconds == pytest.approx(BASE + waits * NETWORK_HOP + sent / NETWORK_RATE)


@given(st.integers(2, 20), st.integers(2, 8), operations, sizes)
@settings(max_examples=40)
def test_the_pipeline_overlaps_its_levels(hosts, mates, operation, size):
    """HCCL: max(b beta_x + alpha_x, b beta_i + alpha_i) (q - 1) + b beta_i + alpha_i, for blocks b."""
    found = collective_time(operation, even(hosts, mates, MESH), size, MESH, "pipeline")
    block = size / hosts / mates
    rounds = NETWORK_HOP + max(block / NETWORK_RATE, block / HOST_RATE)
    half = (hosts - 1) * rounds + block / HOST_RATE + HOST_HOP
    assert found.seconds == pytest.approx(BASE + HALVES[operation] * half)


@given(st.integers(2, 20), st.integers(1, 8), sizes)
@settings(max_examples=40)
def test_the_hierarchy_reduces_inside_then_across_then_gathers_inside(hosts, mates, size):
    found = collective_time(Operation.ALL_REDUCE, even(hosts, mates, MESH), size, MESH, "hierarchical")
    inside = 2 * (HOST_HOP + size / mates / HOST_RATE) if mates > 1 else 0.0
    across = 2 * (hosts - 1) * (NETWORK_HOP + size / mates / hosts / NETWORK_RATE)
    assert found.seconds == pytest.approx(BASE + inside + across)


@given(st.integers(2, 20), st.integers(2, 8), sizes)
@settings(max_examples=40)
def test_a_hierarchical_all_to_all_stays_on_its_rail(hosts, mates, size):
    found = collective_time(Operation.ALL_TO_ALL, even(hosts, mates, MESH), size, MESH, "hierarchical")
    assert found.transfer == pytest.approx(
        size / mates / HOST_RATE + (hosts - 1) / hosts * size / NETWORK_RATE
    )


def reducing(hosts: int = 1):
    found = load_cluster("dgx-h100", hosts)
    return found, found.host.fabric.link.rate


def simple(cluster: Cluster, algorithm: str) -> Protocol:
    """The one protocol of an algorithm."""
    (found,) = cluster.host.protocols_of(algorithm)
    return found


@given(st.integers(2, 8), sizes)
@settings(max_examples=40)
def test_a_reducing_switch_takes_one_part_more_than_all(ranks, size):
    cluster, rate = reducing()
    found = collective_time(Operation.ALL_REDUCE, cluster.placement(range(ranks)), size, cluster, "nvls")
    protocol = simple(cluster, "nvls")
    assert found.latency == pytest.approx(protocol.base + protocol.hops[0])
    assert found.transfer == pytest.approx(size * (1 + 1 / ranks) / (protocol.shares[0] * rate))


def test_eight_hoppers_reduce_at_the_published_rate():
    """busbw of 16 GiB on eight H200 with NVLS: 482 GB/s (stas00/ml-engineering, network/benchmarks)."""
    cluster, _ = reducing()
    size = 16 * 2**30
    found = collective_time(Operation.ALL_REDUCE, cluster.placement(range(8)), size, cluster)
    assert found.algorithm == "nvls"
    assert size / found.seconds * 7 / 4 / 1e9 == pytest.approx(482, rel=0.03)


def test_nvls_and_trees_carry_a_trees_bytes_between_hosts():
    cluster, _ = reducing(16)
    card = cluster.host.network.link.rate
    found = collective_time(Operation.ALL_REDUCE, cluster.placement(range(128)), 2**30, cluster, "nvls_tree")
    protocol = simple(cluster, "nvls_tree")
    assert found.latency == pytest.approx(protocol.base + protocol.hops[0] + 2 * 4 * protocol.hops[1])
    assert found.transfer == pytest.approx(2 * 2**30 / 8 / card)


def test_a_switch_that_does_not_reduce_has_no_nvls():
    cluster = load_cluster("dgx-a100")
    with pytest.raises(PlanError, match="'nvls' cannot do all_reduce for 8 ranks placed like this"):
        collective_time(Operation.ALL_REDUCE, cluster.placement(range(8)), 8, cluster, "nvls")


def test_a_cube_mesh_holds_three_rings_both_ways():
    cycles = disjoint_cycles(CUBE_MESH)
    assert len(cycles) == 3
    left = CUBE_MESH.copy()
    for cycle in cycles:
        for one, other in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
            left[one, other] -= 1
            left[other, one] -= 1
    assert left.min() == 0 and left.sum() == 0
    cluster = load_cluster("dgx-1v")
    found = collective_time(Operation.ALL_REDUCE, cluster.placement(range(8)), 2**40, cluster, "ring")
    assert found.transfer == pytest.approx(7 / 4 * 2**40 / 6 / cluster.host.fabric.link.rate)


def test_a_named_protocol_and_fewer_channels():
    cluster, _ = reducing()
    where = cluster.placement(range(8))
    own = collective_time(Operation.ALL_REDUCE, where, 2**30, cluster, CollectiveRequest("ring", "simple"))
    half = collective_time(
        Operation.ALL_REDUCE, where, 2**30, cluster, CollectiveRequest("ring", "simple", 8)
    )
    assert (own.protocol, own.channels, half.channels) == ("simple", 16, 8)
    assert half.transfer == pytest.approx(2 * own.transfer)
    more = collective_time(
        Operation.ALL_REDUCE, where, 2**30, cluster, CollectiveRequest("ring", "simple", 64)
    )
    assert more.transfer == own.transfer
    with pytest.raises(PlanError, match="no protocol 'lll'"):
        collective_time(Operation.ALL_REDUCE, where, 2**30, cluster, CollectiveRequest("ring", "lll"))
    with pytest.raises(PlanError, match="does not say how many channels"):
        collective_time(Operation.ALL_REDUCE, even(1, 8), 2**30, PLAIN, CollectiveRequest("ring", channels=4))


@pytest.mark.parametrize(
    ("hosts", "size", "algorithm"),
    [
        (1, 2**30, "direct"),
        (2, 2**20, "hierarchical"),
        (3, 2**20, "hierarchical"),
        (4, 2**20, "nhr"),
        (4, 2**26, "pipeline"),
    ],
)
def test_hccl_chooses_by_its_rules(hosts, size, algorithm):
    cluster = load_cluster("atlas-800t-a2", hosts)
    found = collective_time(Operation.ALL_REDUCE, cluster.placement(range(8 * hosts)), size, cluster)
    assert found.algorithm == algorithm


def test_a_barrier_carries_nothing():
    only = Protocol("only", BASE, (HOST_HOP, NETWORK_HOP), (1.0, 1.0))
    cluster = plain(protocols={"default": (only,)})
    found = collective_time(Operation.BARRIER, even(1, 8, cluster), 10**9, cluster, "halving_doubling")
    assert found.seconds == pytest.approx(BASE + 6 * HOST_HOP) and not found.phases
