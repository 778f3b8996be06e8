from __future__ import annotations

from pathlib import Path

import pytest

from simcluster.scenario import Scenario
from simcluster.simulation import prepare, verify
from simcluster.simulation.shrink import shrink, small_mesh
from tests.scenarios import TINY, TINY_GPT, scenario

SHIPPED = sorted(Path("scenarios").glob("*.yaml"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_scenario_computes_what_one_device_computes(path):
    found = verify(Scenario.load(path))
    assert found.agrees, found.first_difference or found.fault
    assert {each.what for each in found.comparisons} == {"loss", "gradient", "update"}
    assert {each.step for each in found.comparisons} == {0, 1}
    assert max(each.error for each in found.comparisons) < 1e-9


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("model", [TINY, TINY_GPT], ids=["llama", "gpt"])
def test_both_precisions(model, dtype):
    which = scenario({"pipeline": 2, "data": 2, "tensor": 2}, model=model, recipe="megatron_sp")
    found = verify(which, dtype=dtype)
    assert found.agrees, found.first_difference or found.fault


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam", "adamw"])
@pytest.mark.parametrize("zero", [0, 1])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_optimizers(optimizer, zero, precision):
    training = {"optimizer": {"kind": optimizer, "weight_decay": 0.1}, "precision": precision}
    which = scenario({"data": 2, "tensor": 2}, training=training, optimizer_sharding={"zero": zero})
    found = verify(which)
    assert found.agrees, found.first_difference or found.fault


def test_grouped_heads_are_split_inside_their_groups():
    """More tensor ranks than key-value heads: keys and values replicated, their gradients summed."""
    model = {**TINY, "heads": 8, "kv_heads": 2}
    which = scenario({"tensor": 4}, devices=4, model=model, recipe="megatron")
    built = prepare(which)
    qkv = next(node for node in built.plan.graph.blocks["layer"].nodes if node.name == "attention.qkv")
    assert qkv.strategy.axes("group") == ("tensor",)
    small = shrink(which)
    assert small.model.kv_heads < 4
    found = verify(which)
    assert found.agrees, found.first_difference or found.fault


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"data": 8}, {"data": 8}),
        ({"pipeline": 4, "data": 8, "tensor": 8}, {"pipeline": 4, "data": 4, "tensor": 4}),
        ({"pipeline": 16, "data": 128, "tensor": 8}, {"pipeline": 4, "data": 4, "tensor": 4}),
        ({"data": 16384}, {"data": 64}),
        ({"pipeline": 35, "data": 8, "tensor": 8}, {"pipeline": 3, "data": 4, "tensor": 4}),
        ({"pipeline": 4, "data": 67}, {"pipeline": 4, "data": 2}),
        ({"pipeline": 2, "data": 64}, {"pipeline": 2, "data": 32}),
    ],
)
def test_the_rule_for_axes(before, after):
    assert small_mesh(before, "pipeline") == after


def test_axes_that_crossed_hosts_still_do():
    which = Scenario.load("scenarios/quickstart.yaml")
    small = shrink(which)
    mesh = prepare(which).plan.mesh
    for axis in mesh.names:
        crossed = which.cluster.span(mesh.groups((axis,))[0]).num_hosts > 1
        reduced = small.scenario.spec.parallel.mesh
        from simcluster.layout import Mesh

        crosses = small.cluster.span(Mesh.of(reduced).groups((axis,))[0]).num_hosts > 1
        assert crosses == crossed, axis


def test_micro_batches_stay_more_than_stages():
    small = shrink(Scenario.load("scenarios/quickstart.yaml"))
    training = small.scenario.spec.training
    ways = small.scenario.spec.parallel.mesh["data"]
    assert training.global_batch // training.micro_batch // ways == 5
