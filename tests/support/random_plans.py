"""Plans of random networks, proved."""

from __future__ import annotations

from functools import cache

from hypothesis import strategies as st

from simcluster.cluster import ClusterSpec
from simcluster.document import validate_data
from simcluster.plan import make_plan
from simcluster.plan.spec import ParallelSpec, TrainingSpec
from simcluster.plan.spec.framework import FrameworkSpec
from simcluster.simulation.verification.single_device_comparison import compare_values
from tests.support.random_graphs import EVEN, MESH, networks

SHARDINGS = [None, {"zero": 1}, {"zero": 3}]
OPTIMIZERS = ["sgd", "momentum", {"kind": "adamw", "eps": 1e-3}]


@cache
def four_devices():
    """One cluster for all networks: it remembers its ways and groups."""
    host = {"use": "dgx-h100", "devices": 4, "network": {"nics": 4}}
    return validate_data({"host": host, "hosts": 1}, ClusterSpec).build()


def plan_of(
    network, strategies, optimizer, sharding, micro_batches, sizes=EVEN, precision="fp32", **framework
):
    """A plan under the ideal framework with some of its switches changed."""
    cluster = four_devices()
    training = {
        "global_batch": sizes.batch * micro_batches,
        "micro_batch": sizes.batch // MESH["a"],
        "seq_len": sizes.seq,
        "precision": precision,
        "optimizer": optimizer,
    }
    parallel = {
        "mesh": MESH,
        "roles": {"batch": "a", "experts": "b"},
        "recipe": "data",
        "strategies": strategies,
        "uneven": "pad" if sizes.uneven else "refuse",
    }
    return make_plan(
        network,
        validate_data(training, TrainingSpec),
        validate_data({**parallel, "optimizer_sharding": sharding}, ParallelSpec),
        validate_data({"use": "ideal", **framework}, FrameworkSpec),
        cluster,
    ), cluster


def assert_right(drawn, optimizer, sharding, micro_batches, sizes=EVEN, **others):
    network, strategies = drawn
    plan, cluster = plan_of(network, strategies, optimizer, sharding, micro_batches, sizes, **others)
    comparisons, fault = compare_values(plan, cluster, "float64", seed=1)
    assert not fault
    wrong = [each for each in comparisons if not each.agrees]
    assert not wrong, wrong[0]


CASES = {
    "drawn": networks(),
    "optimizer": st.sampled_from(OPTIMIZERS),
    "sharding": st.sampled_from(SHARDINGS),
    "micro_batches": st.integers(1, 2),
}
