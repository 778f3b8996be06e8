"""Folded equals unfolded, span by span, to the nanosecond."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.plan.spec import FrameworkSpec, RecipeSpec
from simcluster.scenario import Scenario
from simcluster.simulation.compose.build import build_scenario
from tests.support.covering import quick, quick_at
from tests.support.folding import (
    assert_folded_is_unfolded,
)
from tests.support.scenarios import TINY, TINY_GPT, scenario, under

SHARDINGS = [
    {"zero": 0},
    {"zero": 1},
    {"zero": 3},
    {"fsdp": {"reshard_after_forward": False}},
    {"mindspore": "level2", "min_bytes": "0 B"},
]
MESHES = [
    {"data": 4},
    {"pipeline": 2, "data": 2},
    {"pipeline": 2, "tensor": 2},
    {"pipeline": 2, "data": 2, "tensor": 2},
]
TINY_T5 = {"family": "t5", "encoder_layers": 1, "decoder_layers": 3, "hidden": 32, "heads": 4, "vocab": 64}


@pytest.mark.parametrize("recipe", quick(["megatron", "megatron_sp"], "megatron_sp"))
def test_a_homogeneous_plan_is_one_class_per_stage(recipe):
    which = scenario({"pipeline": 2, "data": 4, "tensor": 2}, devices=2, recipe=recipe)
    assert len(build_scenario(which).classes) == 2
    assert_folded_is_unfolded(which)


def test_groups_that_lie_differently_split_classes():
    """Tensor groups of 3 on hosts of 4: some lie on one host, some on two."""
    model = {**TINY, "heads": 6, "kv_heads": 3, "ffn": 96, "hidden": 48, "head_dim": 8}
    which = scenario({"data": 4, "tensor": 3}, devices=4, model=model, micro_batches=1)
    assert len(build_scenario(which).classes) > 1
    assert_folded_is_unfolded(which)


@pytest.mark.thorough
def test_copies_that_take_no_nanosecond_alone():
    """16 bytes beside a gather of weights on the way to a device: shared, they take one.

    The quick run has what is offloaded folded in ``test_offload``.
    """
    data = {
        "simcluster": 1,
        "name": "small copies",
        "cluster": {"host": {"use": "dgx-h200", "devices": 1}, "hosts": 9},
        "framework": "mindformers",
        "model": {
            "family": "bert",
            "layers": 4,
            "hidden": 32,
            "heads": 4,
            "vocab": 32,
            "max_positions": 16,
        },
        "training": {"global_batch": 108, "micro_batch": 3, "seq_len": 8},
        "parallel": {"mesh": {"data": 9}, "recipe": "fsdp", "offload": {"parameters": "host"}},
    }
    assert_folded_is_unfolded(Scenario.of(data))


def test_tied_embeddings_join_the_ends_of_the_pipeline():
    which = scenario({"pipeline": 4, "data": 2}, model=TINY_GPT, optimizer_sharding={"zero": 1})
    assert_folded_is_unfolded(which)


@pytest.mark.parametrize("sharding", quick_at([{"zero": 1}, "fsdp"], 0), ids=["zero1", "fsdp"])
def test_casts_norms_and_clipping(sharding):
    """What runs once per step for all blocks, in several parts, and the reduction over every axis."""
    training = {"precision": "fp8", "optimizer": {"kind": "lamb", "clip": 1.0}}
    which = scenario(
        {"pipeline": 2, "data": 2, "tensor": 2},
        host="dgx-h100",
        training=training,
        optimizer_sharding=sharding,
        run={"steps": 2},
    )
    assert_folded_is_unfolded(which)


@pytest.mark.exhaustive
@pytest.mark.parametrize("framework", FrameworkSpec.entries())
@settings(max_examples=3)
@given(data=st.data())
def test_every_framework_profile(framework, data):
    """What profiles make wait, bucket, cast and copy, under models and formats they meet; the contract of
    compositions folds and unfolds every profile, too.
    """
    mesh = data.draw(st.sampled_from(MESHES))
    shardings = SHARDINGS if "data" in mesh else SHARDINGS[:1]
    formats = ["bf16", {"compute": "bf16", "matmul": "fp8"}]
    clip = data.draw(st.sampled_from([None, 1.0]))
    which = scenario(
        mesh,
        host="dgx-h100",
        model=data.draw(st.sampled_from([TINY, TINY_GPT, TINY_T5])),
        micro_batches=data.draw(st.integers(1, 4)),
        recipe="megatron" if "tensor" in mesh else "data",
        training={
            "precision": data.draw(st.sampled_from(formats)),
            "optimizer": {"kind": "adam", "clip": clip},
        },
        optimizer_sharding=data.draw(st.sampled_from(shardings)),
        recompute={"layers": data.draw(st.sampled_from(["none", "all"]))},
    )
    assert_folded_is_unfolded(under(which, use=framework))


def changes(ranks, hosts):
    """What is not as the files have it, one entry of ``cluster.changes``.

    Slow and fast devices: single ones, lists, hosts, all by a factor or by a law. Links that carry less, or
    take longer, or carry the traffic of others, for a while or for good.
    """
    factor = st.sampled_from([0.5, 0.9, 1.0, 1.3])
    devices = st.lists(st.integers(0, ranks - 1), min_size=1, max_size=3, unique=True)
    one_of = [
        st.fixed_dictionaries({"device": st.integers(0, ranks - 1) | devices}),
        st.fixed_dictionaries({"host": st.integers(0, hosts - 1)}),
        st.just({"devices": "all"}),
    ]
    law = st.just({"normal": [1.0, 0.1]})
    slower = [
        st.fixed_dictionaries({"compute": factor | law}),
        st.fixed_dictionaries({"memory_bandwidth": factor}),
        st.fixed_dictionaries({"compute": factor, "memory_bandwidth": factor | law}),
    ]
    of_devices = st.tuples(st.one_of(one_of), st.one_of(slower)).map(lambda parts: parts[0] | parts[1])
    return of_devices | link_changes(hosts)


def link_changes(hosts):
    host = st.integers(0, hosts - 1).map(str) | st.just("*")
    which = st.sampled_from(["nic.0.out", "nic.0.in", "nic.*", "*"])
    links = st.tuples(host, which).map(lambda parts: {"link": f"host.{parts[0]}.{parts[1]}"})
    times = st.sampled_from([{}, {"from": "20 us"}, {"until": "90 us"}, {"from": "5 us", "until": "300 us"}])
    what = st.sampled_from(
        [
            {"bandwidth": 0.5},
            {"bandwidth": 1.7, "latency": "3 us"},
            {"latency": "+2 us"},
            {"background": "1 GB/s"},
            {"background": "40 GB/s"},
        ]
    )
    return st.tuples(links, times, what).map(lambda parts: parts[0] | parts[1] | parts[2])


@st.composite
def plans(draw, most):
    """Scenarios of at most ``most`` ranks, with whatever makes ranks differ.

    Axes in any order, hosts that cut groups, uneven stages, every recipe, and changes of the cluster.
    """
    recipe = draw(st.sampled_from(sorted(RecipeSpec.entries())))
    sizes = {"pipeline": [1, 2, 3, 4], "data": [1, 2, 3, 4, 6, 8], "tensor": [1, 2, 4]}
    if recipe not in ("megatron", "megatron_sp", "pangu"):
        del sizes["tensor"]
    mesh, ranks = {}, 1
    for axis in draw(st.permutations(list(sizes))):
        mesh[axis] = draw(st.sampled_from([size for size in sizes[axis] if ranks * size <= most]))
        ranks *= mesh[axis]
    devices = draw(st.sampled_from([size for size in range(1, min(8, ranks) + 1) if ranks % size == 0]))
    model = draw(st.sampled_from([TINY, TINY_GPT]))
    layers = draw(st.lists(st.integers(1, 3), min_size=mesh["pipeline"], max_size=mesh["pipeline"]))
    parallel = {
        "schedule": {
            "stages": layers,
            "kind": draw(st.sampled_from(["gpipe", "1f1b"])),
            "p2p": draw(st.sampled_from(["overlapped", "blocking"])),
        },
        "recompute": {"layers": draw(st.sampled_from(["none", "all"]))},
    }
    sharding = draw(st.sampled_from([None, *SHARDINGS]))
    if sharding is not None:
        parallel["optimizer_sharding"] = sharding
    return scenario(
        mesh,
        devices=devices,
        model={**model, "layers": sum(layers)},
        micro_batches=draw(st.integers(1, 5)),
        recipe=recipe,
        run={"steps": draw(st.sampled_from([1, 2])), "seed": draw(st.integers(0, 3))},
        changes=draw(st.lists(changes(ranks, ranks // devices), max_size=3)),
        **parallel,
    )


@pytest.mark.thorough
@settings(max_examples=15)
@given(which=plans(most=64))
def test_random_plans(which):
    assert_folded_is_unfolded(which)


@pytest.mark.exhaustive
@settings(max_examples=600)
@given(which=plans(most=64))
def test_many_random_plans(which):
    assert_folded_is_unfolded(which)
