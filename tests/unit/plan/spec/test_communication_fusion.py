from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.document import validate_data
from simcluster.errors import SimclusterError
from simcluster.plan.execution.execution_policy import Buckets, Fusion
from simcluster.plan.spec import ParallelSpec
from simcluster.plan.spec.communication_fusion import MB, FusionSpec


def read(written):
    return validate_data({"mesh": {"data": 2}, **written}, ParallelSpec)


@given(st.lists(st.integers(1, 100), max_size=40), st.sets(st.integers(1, 50), min_size=1))
@settings(max_examples=40)
def test_indices_close_buckets_behind_so_many_gradients(sizes, ends):
    found = Buckets(ends=tuple(sorted(ends))).fill(sizes)
    borders = [0, *(end for end in sorted(ends) if end < len(sizes)), len(sizes)]
    wanted = [list(range(a, b)) for a, b in pairwise(borders) if a < b]
    assert found == wanted


@given(st.lists(st.integers(0, 9), max_size=40), st.integers(1, 4))
def test_units_are_not_cut_and_so_many_are_a_bucket(units, count):
    names = [f"layers.{each}" for each in sorted(units)]
    found = Buckets(units=count).fill([1] * len(names), (), names)
    assert [position for bucket in found for position in bucket] == list(range(len(names)))
    held = [{names[position] for position in bucket} for bucket in found]
    assert all(len(each) == count for each in held[:-1])
    assert all(before.isdisjoint(after) for before, after in pairwise(held))


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ({"all_reduce": {"mode": "auto"}}, Fusion(all_reduce=Buckets(64 * MB))),
        ({"allreduce": {"mode": "size", "config": 25}}, Fusion(all_reduce=Buckets(25 * MB))),
        (
            {"all_reduce": {"mode": "index", "config": [20, 35]}},
            Fusion(all_reduce=Buckets(ends=(20, 35))),
        ),
        (
            {"all_reduce": {"mode": "size", "config": 25, "first": 1}},
            Fusion(all_reduce=Buckets(25 * MB, MB)),
        ),
        ({"allgather": {"mode": "size", "config": 3}}, Fusion(all_gather=Buckets(3 * MB))),
        (
            {"openstate": True, "reducescatter": {"mode": "size", "config": 8}},
            Fusion(reduce_scatter=Buckets(8 * MB)),
        ),
        ({"all_gather": {"mode": "index", "config": [3]}}, Fusion(all_gather=Buckets(ends=(3,)))),
        (
            {"all_gather": {"mode": "units"}, "reduce_scatter": {"mode": "units", "config": 2}},
            Fusion(reduce_scatter=Buckets(units=2), all_gather=Buckets(units=1)),
        ),
        (
            {"all_gather": {"mode": "search"}, "reduce_scatter": {"mode": "auto"}},
            Fusion(None, Buckets(64 * MB), Buckets(1), searched=("all_gather",)),
        ),
    ],
)
def test_what_is_written_is_what_fills_buckets(written, wanted):
    assert Fusion.of(validate_data(written, FusionSpec)) == wanted


def test_the_short_form_of_mindspore_is_the_long_one():
    long = read({"fusion": {"all_reduce": {"mode": "index", "config": [20, 35]}}})
    assert read({"all_reduce_fusion_config": [20, 35]}).fused == long.fused
    with_other = {"fusion": {"reduce_scatter": {"mode": "auto"}}, "all_reduce_fusion_config": [2]}
    assert read(with_other).fused.said == ("all_reduce", "reduce_scatter")


def test_what_is_not_used_says_nothing():
    spec = read({"fusion": {"all_reduce": {"mode": "auto"}, "reduce_scatter": {"mode": "auto"}}}).fused
    assert spec.only({"all_reduce"}).said == ("all_reduce",)
    assert spec.only({"all_reduce", "reduce_scatter"}) == spec


@pytest.mark.parametrize(
    ("written", "path", "words"),
    [
        ({"fusion": {"all_gather": {"mode": "whole"}}}, "fusion.all_gather.mode", ""),
        ({"fusion": {"all_gather": {"mode": "units", "config": [3]}}}, "fusion.all_gather.config", "layers"),
        ({"fusion": {"all_gather": {"mode": "units", "config": 0}}}, "fusion.all_gather.config", ""),
        ({"fusion": {"allgather": {"mode": "size"}}}, "fusion.allgather", "needs a config"),
        ({"fusion": {"openstate": True}}, "fusion.openstate", "says nothing by itself"),
        (
            {"fusion": {"openstate": False, "all_reduce": {"mode": "auto"}}},
            "fusion.all_reduce",
            "nothing is fused with openstate: false",
        ),
        ({"fusion": {"all_reduce": {"mode": "auto", "config": 3}}}, "fusion.all_reduce.config", "64 MB"),
        (
            {"fusion": {"all_reduce": {"mode": "search", "config": 3}}},
            "fusion.all_reduce.config",
            "a search finds",
        ),
        (
            {"fusion": {"reduce_scatter": {"mode": "search", "config": 3}}},
            "fusion.reduce_scatter.config",
            "a search finds",
        ),
        ({"fusion": {"all_reduce": {"mode": "size"}}}, "fusion.all_reduce", "needs a config"),
        ({"fusion": {"all_reduce": {"mode": "size", "config": [3]}}}, "fusion.all_reduce.config", "one size"),
        ({"fusion": {"all_reduce": {"mode": "index", "config": 3}}}, "fusion.all_reduce.config", "a list"),
        (
            {"fusion": {"all_reduce": {"mode": "index", "config": [3, 3]}}},
            "fusion.all_reduce.config",
            "cannot end behind number 3",
        ),
        ({"fusion": {"reduce_scatter": {"mode": "index"}}}, "fusion.reduce_scatter", "needs a config"),
        (
            {"fusion": {"all_reduce": {"mode": "auto", "first": 1}}},
            "fusion.all_reduce.first",
            "mode auto has none",
        ),
        (
            {"fusion": {"all_reduce": {"mode": "index", "config": [3], "first": 1}}},
            "fusion.all_reduce.first",
            "mode index has none",
        ),
        (
            {"fusion": {"reduce_scatter": {"mode": "auto", "first": 1}}},
            "fusion.reduce_scatter.first",
            "mode auto has none",
        ),
        ({"fusion": {"ids": [{"match": "layers.*", "id": 2}]}}, "fusion.ids", "how much"),
        (
            {"fusion": {"all_reduce": {"mode": "auto"}, "ids": [{"match": "layers.*", "id": -1}]}},
            "fusion.ids.0.id",
            "",
        ),
        ({"all_reduce_fusion_config": [5, 2]}, "all_reduce_fusion_config", "cannot end behind number 2"),
        (
            {"fusion": {"all_reduce": {"mode": "auto"}}, "all_reduce_fusion_config": [5]},
            "all_reduce_fusion_config",
            "fusion says already",
        ),
        (
            {"fusion": {"openstate": False}, "all_reduce_fusion_config": [5]},
            "all_reduce_fusion_config",
            "fusion says already",
        ),
    ],
)
def test_what_would_say_nothing_or_two_things_is_refused(written, path, words):
    with pytest.raises(SimclusterError) as caught:
        read(written)
    assert any(each.path.startswith(path) and words in each.message for each in caught.value.problems)
