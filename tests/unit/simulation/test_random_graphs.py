"""Random networks of random operators under random legal strategies compute what one device computes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.cluster import ClusterSpec
from simcluster.document import validate_data
from simcluster.plan import make_plan
from simcluster.plan.framework import FrameworkSpec
from simcluster.plan.spec import ParallelSpec, TrainingSpec
from simcluster.simulation.verify import proved
from tests.random_graphs import EVEN, MESH, UNEVEN, networks

SHARDINGS = [None, {"zero": 1}, {"zero": 3}]
OPTIMIZERS = ["sgd", "momentum", {"kind": "adamw", "eps": 1e-3}]


def plan_of(network, strategies, optimizer, sharding, micro_batches, sizes=EVEN):
    cluster = validate_data(
        {"host": {"use": "dgx-h100", "devices": 4, "network": {"nics": 4}}, "hosts": 1}, ClusterSpec
    )
    training = {
        "global_batch": sizes.batch * micro_batches,
        "micro_batch": sizes.batch // MESH["a"],
        "seq_len": sizes.seq,
        "precision": "fp32",
        "optimizer": optimizer,
    }
    parallel = {
        "mesh": MESH,
        "roles": {"batch": "a", "spare": "b"},
        "recipe": "data",
        "strategies": strategies,
        "uneven": "pad" if sizes.uneven else "refuse",
    }
    return make_plan(
        network,
        validate_data(training, TrainingSpec),
        validate_data({**parallel, "optimizer_sharding": sharding}, ParallelSpec),
        FrameworkSpec.load("ideal"),
        cluster.build(),
    ), cluster.build()


def assert_right(drawn, optimizer, sharding, micro_batches, sizes=EVEN):
    network, strategies = drawn
    plan, cluster = plan_of(network, strategies, optimizer, sharding, micro_batches, sizes)
    comparisons, fault = proved(plan, cluster, "float64", seed=1)
    assert not fault
    wrong = [each for each in comparisons if not each.agrees]
    assert not wrong, wrong[0]


CASES = {
    "drawn": networks(),
    "optimizer": st.sampled_from(OPTIMIZERS),
    "sharding": st.sampled_from(SHARDINGS),
    "micro_batches": st.integers(1, 2),
}


@settings(max_examples=200)
@given(**CASES)
def test_random_networks(drawn, optimizer, sharding, micro_batches):
    assert_right(drawn, optimizer, sharding, micro_batches)


@pytest.mark.exhaustive
@settings(max_examples=10_000)
@given(**CASES)
def test_ten_thousand_random_networks(drawn, optimizer, sharding, micro_batches):
    assert_right(drawn, optimizer, sharding, micro_batches)


@settings(max_examples=200)
@given(**{**CASES, "drawn": networks(sizes=UNEVEN)})
def test_random_networks_of_sizes_that_do_not_divide(drawn, optimizer, sharding, micro_batches):
    assert_right(drawn, optimizer, sharding, micro_batches, UNEVEN)
