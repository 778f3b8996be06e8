"""Random networks of random operators under random legal strategies compute what one device computes."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from simcluster.cluster import ClusterSpec
from simcluster.document import validate_data
from simcluster.plan import make_plan
from simcluster.plan.framework import FrameworkSpec
from simcluster.plan.spec import ParallelSpec, TrainingSpec
from simcluster.simulation.verify import proved
from tests.random_graphs import BATCH, MESH, SEQ, networks

SHARDINGS = [None, {"zero": 1}, {"zero": 3}]
OPTIMIZERS = ["sgd", "momentum", {"kind": "adamw", "eps": 1e-3}]


@cache
def four_devices():
    """One cluster for all networks: it remembers its ways and groups."""
    host = {"use": "dgx-h100", "devices": 4, "network": {"nics": 4}}
    return validate_data({"host": host, "hosts": 1}, ClusterSpec).build()


def plan_of(network, strategies, optimizer, sharding, micro_batches):
    cluster = four_devices()
    training = {
        "global_batch": BATCH * micro_batches,
        "micro_batch": BATCH // MESH["a"],
        "seq_len": SEQ,
        "precision": "fp32",
        "optimizer": optimizer,
    }
    parallel = {
        "mesh": MESH,
        "roles": {"batch": "a", "spare": "b"},
        "recipe": "data",
        "strategies": strategies,
    }
    return make_plan(
        network,
        validate_data(training, TrainingSpec),
        validate_data({**parallel, "optimizer_sharding": sharding}, ParallelSpec),
        FrameworkSpec.load("ideal"),
        cluster,
    ), cluster


def assert_right(drawn, optimizer, sharding, micro_batches):
    network, strategies = drawn
    plan, cluster = plan_of(network, strategies, optimizer, sharding, micro_batches)
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
@pytest.mark.parametrize("part", range(16))
def test_ten_thousand_random_networks(part):
    """In sixteen parts that can run beside each other, each drawn from a seed of its own."""
    proof = given(**CASES)(assert_right)
    seed(part)(settings(max_examples=625, database=None)(proof))()
