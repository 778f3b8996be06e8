"""The rates that nccl-tests prints, from what a collective takes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.cluster import load_cluster
from simcluster.collectives import Operation, all_algorithms, benchmark, collective_time, refused_name
from simcluster.errors import PlanError

CLUSTER = load_cluster("dgx-h100", 4)
# nccl-tests, doc/PERFORMANCE.md, for 8 ranks.
FACTORS = {
    Operation.ALL_REDUCE: 14 / 8,
    Operation.ALL_GATHER: 7 / 8,
    Operation.REDUCE_SCATTER: 7 / 8,
    Operation.ALL_TO_ALL: 7 / 8,
    Operation.BROADCAST: 1,
    Operation.ALL_TO_ALL_V: 7 / 8,
    Operation.REDUCE: 1,
    Operation.GATHER: 7 / 8,
    Operation.SCATTER: 7 / 8,
    Operation.SEND_RECEIVE: 1,
    Operation.BARRIER: 1,
    Operation.NEIGHBOR_EXCHANGE: 1,
    Operation.SHIFT: 1,
    Operation.ROTATE: 1,
}


@pytest.mark.parametrize("operation", Operation)
def test_bus_factors_are_those_of_nccl_tests(operation):
    assert operation.bus_factor(8) == pytest.approx(FACTORS[operation])


@given(st.sampled_from(Operation), st.integers(1, 2**34))
@settings(max_examples=40)
def test_a_row_is_what_a_run_charges(operation, size):
    where = CLUSTER.placement([0, 8] if operation is Operation.SEND_RECEIVE else range(32))
    (row,) = benchmark(operation, where, [size], CLUSTER)
    choice = collective_time(operation, where, size, CLUSTER)
    assert row.choice == choice
    assert row.seconds == pytest.approx(choice.duration_ns / 1e9)
    assert row.algbw * row.seconds == pytest.approx(size)
    assert row.busbw == pytest.approx(row.algbw * operation.bus_factor(where.num_ranks))


@pytest.mark.parametrize("operation", sorted(all_algorithms()["ring"].operations - {Operation.BARRIER}))
def test_large_rings_run_at_the_rate_of_their_links(operation):
    """What busbw is for: whatever the operation, it tends to the link's usable rate.

    Only a rank's own part costs beside it, half of what it would cost over the link (broadcast and reduce
    have none), so that the rate comes nearer the more ranks there are.
    """
    every = {Operation.ALL_REDUCE: 2, Operation.ALL_GATHER: 1, Operation.REDUCE_SCATTER: 1}
    passes = every.get(operation)
    for ranks in (2, 4, 8):
        (row,) = benchmark(operation, CLUSTER.placement(range(ranks)), [2**40], CLUSTER, "ring")
        reached = 1.0 if passes is None else passes * (ranks - 1) / (passes * (ranks - 1) + 0.5)
        assert row.busbw == pytest.approx(CLUSTER.host.fabric.link.rate * reached, rel=1e-3)


def test_one_rank_has_nobody_to_talk_to():
    with pytest.raises(PlanError, match="at least two ranks"):
        benchmark(Operation.ALL_REDUCE, CLUSTER.placement([0]), [1024], CLUSTER)


@pytest.mark.parametrize("operation", Operation)
@pytest.mark.parametrize("kind", all_algorithms())
def test_a_name_is_refused_only_where_it_cannot_do_the_operation(kind, operation):
    problem = refused_name(kind, operation)
    assert (problem is None) == (operation in all_algorithms()[kind].operations)
    assert refused_name(kind) is None and refused_name("auto", operation) is None


def test_refusals_name_what_would_do():
    problem = refused_name("tree", Operation.ALL_GATHER)
    assert problem and str(problem).startswith(
        "algorithm 'tree' cannot do all_gather\n    for all_gather: auto, "
    )
    problem = refused_name("rng")
    assert problem and "unknown algorithm 'rng'" in problem.message
    assert all(kind in problem.hint for kind in ("auto", *all_algorithms()))


def test_two_neighbours_send_half_of_what_they_could():
    assert Operation.NEIGHBOR_EXCHANGE.bus_factor(2) == 0.5
    assert Operation.NEIGHBOR_EXCHANGE.bus_factor(3) == 1
