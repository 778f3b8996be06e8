from __future__ import annotations

import pytest

from simcluster.layout import FLAT, Layout, Movement, MovementKind
from simcluster.model import Phase, Role
from simcluster.model.operators.optimizer import AdamW, Update
from simcluster.plan.optimizer.optimizer_plan import OptimizerPlan
from simcluster.plan.optimizer.optimizer_step import optimize
from simcluster.plan.spec.optimizer_sharding import ShardingChoice
from simcluster.work import DType
from tests.support import pass_graphs
from tests.support.pass_graphs import ADAM, MESH
from tests.support.plan_graphs import router, told
from tests.support.planned import GPT, plan


def updates(block):
    return {node.origin: node for node in block.nodes if isinstance(node.operator, Update)}


def once(block, phase):
    return [str(node.operator) for node in block.phase(phase) if isinstance(node.operator, Movement)]


def test_every_parameter_is_updated_once_from_a_reduced_gradient():
    graph = plan({"data": 2, "tensor": 2}).graph
    for block in graph.blocks.values():
        found = updates(block)
        assert set(found) == set(block.parameters)
        for name, node in found.items():
            assert node.phase is Phase.END
            gradient = block.values[node.inputs[1]]
            assert not gradient.layout.partial
            assert gradient.layout == block.values[name].layout


def test_without_sharding_gradients_are_all_reduced_over_the_data_ranks():
    layer = plan({"data": 2, "tensor": 2}).graph.blocks["layer"]
    assert set(once(layer, Phase.END)) == {"all_reduce over data"}
    assert once(layer, Phase.BEGIN) == []


def test_zero_1_scatters_gradients_and_gathers_weights():
    layer = plan({"data": 4}, optimizer_sharding={"zero": 1}).graph.blocks["layer"]
    count = len(layer.parameters)
    assert once(layer, Phase.END) == ["reduce_scatter over data"] * count
    assert once(layer, Phase.BEGIN) == ["all_gather over data"] * count
    for node in layer.phase(Phase.END, Phase.BEGIN):
        if isinstance(node.operator, Movement):
            assert node.operator.dim == FLAT
    gathers = list(layer.phase(Phase.BEGIN))
    assert [node.outputs for node in gathers] == [(name,) for name in updates(layer)]
    assert [node.inputs for node in gathers] == [(node.outputs[-1],) for node in updates(layer).values()]
    for name, node in updates(layer).items():
        for value in (*node.inputs, *node.outputs):
            assert layer.values[value].layout.flat == ("data",) or value == f"{name}"


def test_a_gradient_that_all_ranks_have_is_sliced_behind_the_last_reduction():
    whole = [{"match": "head.norm", "split": {"batch": []}}]
    found = plan({"data": 4}, strategies=whole, optimizer_sharding={"zero": 1}).graph.blocks["head"]
    kinds = [node.operator.kind for node in found.phase(Phase.END) if isinstance(node.operator, Movement)]
    assert kinds == [MovementKind.REDUCE_SCATTER, MovementKind.ALL_REDUCE, MovementKind.SLICE]
    node = updates(found)["norm.weight"]
    assert found.values[node.inputs[1]].layout == Layout(((),), flat=("data",))


def test_states_lie_flat_only_over_axes_that_hold_replicas():
    layer = plan({"data": 2, "tensor": 2}, optimizer_sharding={"zero": 1}).graph.blocks["layer"]
    moment = layer.values["mlp.up.up.weight.moment1"]
    assert moment.layout == Layout(((), ("tensor",)), flat=("data",))
    assert moment.role is Role.STATE
    assert moment.type.dtype is DType.FP32


def test_mixed_precision_updates_a_master_copy_and_casts():
    layer = plan({"data": 2}, training={"precision": "bf16", "optimizer": "adamw"}).graph.blocks["layer"]
    node = updates(layer)["mlp.down.weight"]
    assert isinstance(node.operator, AdamW)
    assert node.operator.cast is DType.BF16
    assert node.inputs[0] == "mlp.down.weight.master"
    assert node.outputs[0] == "mlp.down.weight.master"
    assert node.outputs[-1] == "mlp.down.weight"
    assert layer.values["mlp.down.weight.master"].copy_of == "mlp.down.weight"
    plain = plan({"data": 2}, training={"precision": "fp32"}).graph.blocks["layer"]
    assert updates(plain)["mlp.down.weight"].operator.cast is None
    assert "mlp.down.weight.master" not in plain.values


def test_optimizers_keep_the_states_they_need():
    for kind, states in (("sgd", []), ("momentum", ["velocity"]), ("adam", ["moment1", "moment2"])):
        training = {"optimizer": kind, "precision": "fp32"}
        layer = plan({"data": 2}, training=training).graph.blocks["layer"]
        node = updates(layer)["mlp.down.weight"]
        assert list(node.inputs[2:]) == [f"mlp.down.weight.{state}" for state in states]


def test_the_loss_is_reduced_as_a_scalar_at_the_end():
    graph = plan({"data": 2, "tensor": 2}, recipe="megatron_sp").graph
    head = graph.blocks["head"]
    (reduction,) = [node for node in head.phase(Phase.END) if node.origin == head.loss]
    assert reduction.operator == Movement(MovementKind.ALL_REDUCE, ("data",))
    assert head.values[reduction.inputs[0]].type.shape == ()


def test_tied_parameters_are_reduced_over_the_stages_that_hold_them_and_updated_on_each():
    graph = plan({"pipeline": 3, "data": 2}, model=GPT).graph
    blocks = {each.name: graph.block_of(each) for each in graph.instances}
    for instance, name in (("embedding", "tokens.weight"), ("head", "logits.weight")):
        block = blocks[instance]
        gradient = block.values[block.gradients[name]]
        assert gradient.layout.partial_axes == ("data", "pipeline[0,2]")
        assert name in updates(block)
    other = blocks["embedding"]
    assert other.values[other.gradients["positions.weight"]].layout.partial_axes == ("data",)


def test_tied_parameters_on_one_stage_are_updated_once():
    graph = plan({"data": 2}, model=GPT).graph
    blocks = {each.name: graph.block_of(each) for each in graph.instances}
    assert "tokens.weight" in updates(blocks["embedding"])
    assert "logits.weight" not in updates(blocks["head"])
    gradient = blocks["embedding"].values["tokens.weight.grad"]
    assert gradient.layout.partial_axes == ("data",)


def test_one_rank_reduces_and_gathers_nothing():
    graph = plan({"data": 1}, optimizer_sharding={"zero": 1}).graph
    for block in graph.blocks.values():
        assert once(block, Phase.END) == once(block, Phase.BEGIN) == []
        assert set(updates(block)) == set(block.parameters)


SHARDED = ShardingChoice(states=True, axes=("data",))


@pytest.mark.parametrize(
    ("sharding", "whole_sums", "begin", "end"),
    [
        (ShardingChoice(), False, [], ["all_reduce data"]),
        (SHARDED, False, ["all_gather data"], ["reduce_scatter data"]),
        (SHARDED, True, ["all_gather data"], ["all_reduce data"]),
    ],
    ids=["whole", "sharded states", "sharded states, whole sums"],
)
def test_the_pass_reduces_updates_and_gathers_and_leaves_the_micro_batch_alone(
    sharding, whole_sums, begin, end
):
    before = pass_graphs.sharded()
    states = dict.fromkeys(ADAM.states, DType.FP32)
    plan = OptimizerPlan(ADAM, None, states, sharding, whole_sums=whole_sums)
    graph = optimize(before, plan, MESH, router(MESH), "pipeline")
    old, block = (one.blocks["layer"] for one in (before, graph))
    count = len(block.parameters)
    assert told(block, Phase.BEGIN) == begin * count
    assert told(block, Phase.END) == end * count
    updates = [node for node in block.phase(Phase.END) if node.operator == ADAM]
    assert [node.origin for node in updates] == list(old.parameters)
    both = (Phase.FORWARD, Phase.BACKWARD)
    assert list(block.phase(*both)) == list(old.phase(*both))
