"""Sparse attention under plans: it computes what one device computes, or is refused with words."""

from __future__ import annotations

import math

import pytest

from simcluster.errors import PlanError
from simcluster.plan import ulysses_entry
from simcluster.scenario import Scenario
from simcluster.simulation import build_scenario, verify
from tests.support.covering import quick

MODEL = {
    "layers": 2,
    "hidden": 16,
    "heads": 4,
    "ffn": 16,
    "vocab": 64,
    "latent": {
        "q_rank": 12,
        "kv_rank": 8,
        "nope_dim": 4,
        "rope_dim": 2,
        "value_dim": 3,
        "sparse": {"heads": 3, "head_dim": 4, "tokens": 3},
    },
}


def scenario(mesh, *, framework="ideal", training=None, model=None, **parallel):
    ranks = math.prod(mesh.values())
    return Scenario.of(
        {
            "simcluster": 1,
            "name": "sparse",
            "cluster": {"host": {"use": "dgx-h100", "devices": ranks, "network": {"nics": 1}}, "hosts": 1},
            "framework": framework,
            "model": {**MODEL, **(model or {})},
            "training": {"global_batch": 8, "micro_batch": 2, "seq_len": 8, **(training or {})},
            "parallel": {"mesh": mesh, **parallel},
        }
    )


MASKED = {"use": "ideal", "sparse_attention": "masked"}
PLANS = [
    {"mesh": {"data": 2, "tensor": 4}, "recipe": "megatron_sp"},
    {"mesh": {"data": 2, "tensor": 4}, "recipe": "megatron_sp", "framework": MASKED},
    {"mesh": {"context": 2, "tensor": 2, "data": 2}, "recipe": "megatron"},
    {
        "mesh": {"context": 2, "tensor": 2, "data": 2},
        "recipe": "megatron_sp",
        "strategies": [ulysses_entry({"tensor": 2, "context": 2}, 4, 1)],
    },
    {"mesh": {"context": 4, "tensor": 2}, "framework": MASKED, "recompute": {"layers": "all"}},
    {"mesh": {"pipeline": 2, "data": 4}, "schedule": {"kind": "zb_h1"}, "optimizer_sharding": {"zero": 1}},
    {"mesh": {"data": 8}, "optimizer_sharding": {"zero": 3}, "training": {"global_batch": 16}},
    {"mesh": {"tensor": 2, "data": 4}, "recompute": {"operators": ["layers.*.attention.{indexer,core}*"]}},
    {
        "mesh": {"tensor": 2, "data": 4},
        "training": {"precision": "fp8", "optimizer": {"kind": "adamw", "clip": 0.01}},
    },
    {"mesh": {"tensor": 4, "data": 2}, "model": {"heads": 6}, "uneven": "pad"},
]


@pytest.mark.parametrize("plan", quick(PLANS, PLANS[0]), ids=lambda plan: str(sorted(plan)))
def test_it_computes_what_one_device_computes(plan):
    found = verify(scenario(**plan))
    assert found.agrees, found.fault or found.first_difference


def backward(which):
    graph = build_scenario(which).plan.graph
    block = next(graph.block_of(instance) for instance in graph.instances if instance.name == "layers.1")
    return {node.operator.kind for node in block.nodes if node.name.startswith("attention.")}


def test_a_frozen_indexer_learns_nothing():
    learns = {"attended_shares", "indexer_loss_grad"}
    assert learns <= backward(scenario({"data": 2}))
    frozen = {"frozen": ["*.attention.indexer.*"]}
    assert not learns & backward(scenario({"data": 2}, training=frozen))


REFUSED = [
    ({"mesh": {"context": 2}, "context": "ring"}, "chooses among the keys of whole sequences: gather them"),
    ({"mesh": {"pipeline": 2}, "schedule": {"kind": "seqpipe", "slices": 2}}, "gather them"),
    ({"mesh": {"data": 2}, "framework": {"use": "ideal", "attention": "unfused"}}, "is one kernel"),
]


@pytest.mark.parametrize(("plan", "message"), REFUSED)
def test_what_it_does_not_go_with_is_said(plan, message):
    with pytest.raises(PlanError, match=message):
        build_scenario(scenario(**plan))
