from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.document import validate_data
from simcluster.layout import Mesh
from simcluster.plan.execution.execution_policy import FREE_EXECUTION, Buckets, ExecutionPolicy
from simcluster.plan.spec import BucketSpec
from simcluster.plan.spec.framework import FrameworkSpec
from simcluster.plan.spec.optimizer_sharding import ShardingChoice

SIZES = st.lists(st.integers(1, 100), max_size=30)


@given(SIZES, st.integers(1, 200), st.none() | st.integers(1, 50))
def test_buckets_hold_everything_in_order_and_close_when_full(sizes, limit, first):
    found = Buckets(limit, first).fill(sizes)
    assert [position for bucket in found for position in bucket] == list(range(len(sizes)))
    for number, bucket in enumerate(found):
        held = [sizes[position] for position in bucket]
        wanted = first if first is not None and number == 0 else limit
        assert sum(held[:-1]) < wanted
        if number < len(found) - 1:
            assert sum(held) >= wanted


@given(SIZES.filter(bool))
def test_without_a_limit_there_is_one_bucket(sizes):
    assert Buckets().fill(sizes) == [list(range(len(sizes)))]


def test_nothing_fills_no_bucket():
    assert Buckets().fill([]) == []


@pytest.mark.parametrize(
    ("written", "ways", "wanted"),
    [
        ({"bytes": "25 MiB", "first_bytes": "1 MiB"}, 8, Buckets(25 << 20, 1 << 20)),
        ({"elements": 40_000_000, "elements_per_rank": 1_000_000}, 8, Buckets(40_000_000, None, True)),
        ({"elements": 40_000_000, "elements_per_rank": 1_000_000}, 64, Buckets(64_000_000, None, True)),
    ],
)
def test_the_buckets_of_a_profile(written, ways, wanted):
    """Megatron-Core: max(40,000,000, 1,000,000 x data-parallel ranks) elements."""
    assert Buckets.of(validate_data(written, BucketSpec), ways) == wanted


def test_bytes_of_a_bucket_of_elements():
    assert Buckets(100, in_elements=True).num_bytes(4) == 400
    assert Buckets(100).num_bytes(4) == 100


def test_the_ideal_profile_makes_nothing_wait():
    mesh = Mesh.of({"pipeline": 2, "data": 2, "tensor": 2})
    assert (
        ExecutionPolicy.of(FrameworkSpec.load("ideal"), ShardingChoice(), mesh, ("data",), "pipeline")
        == FREE_EXECUTION
    )
    scattering = ExecutionPolicy.of(
        FrameworkSpec.load("megatron-lm-2021"), ShardingChoice(), mesh, ("data",), "pipeline"
    )
    assert scattering.p2p_scatter_axes == ("tensor",)
