"""Where sharded weights are gathered and sharded gradients scattered in the graph."""

from __future__ import annotations

import pytest

from simcluster.layout import FLAT, Layout, Movement, MovementKind, Strategy
from simcluster.model import Block, Node, Phase, Role, TensorType, Value
from simcluster.model.operators.cast import Cast
from simcluster.model.operators.optimizer import Update
from simcluster.model.operators.pointwise import Add
from simcluster.plan.optimizer.fsdp_units import add_unit_gathers
from simcluster.plan.redistribution.redistribution_planner import RedistributionPlanner
from simcluster.plan.spec.optimizer_sharding import ShardingChoice
from simcluster.work import DType
from tests.support.plan_graphs import MESH
from tests.support.planned import GPT, plan

FORMS = {
    "zero 2": {"zero": 2},
    "zero 3": {"zero": 3},
    "fsdp": "fsdp",
    "kept": {"fsdp": {"reshard_after_forward": False}},
    "level1": {"mindspore": "level1", "min_bytes": "0 B"},
    "level3": {"mindspore": "level3", "min_bytes": "0 B"},
}


def layer(form, mesh=None, **parallel):
    graph = plan(mesh or {"data": 4}, optimizer_sharding=FORMS[form], **parallel).graph
    return next(block for name, block in graph.blocks.items() if name.startswith("layer"))


def movements(block, phase):
    return [str(node.operator) for node in block.phase(phase) if isinstance(node.operator, Movement)]


@pytest.mark.parametrize("form", FORMS)
def test_what_is_gathered_and_scattered_when(form):
    block = layer(form)
    count = len(block.parameters)
    gathers, scatters = ["all_gather over data"] * count, ["reduce_scatter over data"] * count
    sharded = form != "zero 2"
    assert movements(block, Phase.GATHER) == (gathers if sharded else [])
    assert movements(block, Phase.REGATHER) == (gathers if form in ("zero 3", "fsdp", "level3") else [])
    assert movements(block, Phase.SCATTER) == ([] if form == "level1" else scatters)
    assert movements(block, Phase.END) == (scatters if form == "level1" else [])
    assert movements(block, Phase.BEGIN) == ([] if sharded else gathers)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("recompute", ["none", "all"])
def test_nobody_computes_with_a_shard(form, recompute):
    block = layer(form, recompute={"layers": recompute})
    regathers = form in ("zero 3", "fsdp", "level3")
    for node in block.phase(Phase.FORWARD, Phase.BACKWARD):
        for value in node.inputs:
            kind = block.values[value]
            assert not kind.layout.flat
            if kind.role is Role.GATHERED:
                again = regathers and node.phase is Phase.BACKWARD
                assert value.endswith(".regathered" if again else ".gathered")
                assert kind.layout == Layout.replicated(len(kind.type.shape))


@pytest.mark.parametrize("form", ["zero 3", "fsdp"])
def test_zero_keeps_a_cast_beside_the_master_copy_and_fsdp_does_not(form):
    block = layer(form, training={"precision": "bf16"})
    weight = block.values["mlp.down.weight"]
    update = next(n for n in block.nodes if isinstance(n.operator, Update) and n.origin == "mlp.down.weight")
    casts = [node for node in block.nodes if isinstance(node.operator, Cast)]
    assert weight.layout.flat == ("data",)
    if form == "zero 3":
        assert weight.type.dtype is DType.BF16
        assert block.values["mlp.down.weight.master"].type.dtype is DType.FP32
        assert update.inputs[0] == "mlp.down.weight.master"
        assert not casts
    else:
        assert weight.type.dtype is DType.FP32
        assert "mlp.down.weight.master" not in block.values
        assert update.inputs[0] == update.outputs[0] == "mlp.down.weight"
        assert len(casts) == 2 * len(block.parameters)
    assert block.values["mlp.down.weight.gathered"].type.dtype is DType.BF16


def test_rows_are_split_where_they_divide_and_flat_everywhere():
    sizes = {"layers": 2, "hidden": 16, "heads": 8, "kv_heads": 4, "ffn": 24, "vocab": 61}
    rows = layer("level3", {"data": 16}, model=sizes)
    assert rows.values["mlp.up.up.weight"].layout == Layout((("data",), ()))
    assert rows.values["mlp.down.weight"].layout == Layout(((), ()))
    assert {
        node.operator.dim for node in rows.phase(Phase.GATHER) if isinstance(node.operator, Movement)
    } == {0}
    flat = layer("zero 3", {"data": 16}, model=sizes)
    assert flat.values["mlp.down.weight"].layout == Layout(((), ()), flat=("data",))
    assert {node.operator.dim for node in flat.phase(Phase.GATHER)} == {FLAT}


def test_small_parameters_stay_whole_and_are_reduced_once_per_step():
    sharding = {"states": True, "gradients": True, "weights": True, "min_bytes": "100 B"}
    block = plan({"data": 4}, optimizer_sharding=sharding).graph.blocks["layer"]
    whole = {"attention.norm.weight", "mlp.norm.weight"}
    assert {name for name in block.parameters if f"{name}.gathered" not in block.values} == whole
    assert movements(block, Phase.END) == ["all_reduce over data"] * 2
    for name in whole:
        assert block.values[f"{name}.moment1"].layout == Layout(((),))


def test_hybrid_sharding_scatters_inside_and_reduces_across_once_per_step():
    roles = {"batch": ["replica", "data"]}
    sharding = {"zero": 3, "axes": "data"}
    batch = {"global_batch": 16, "micro_batch": 1, "seq_len": 8}
    mesh = {"replica": 2, "data": 4}
    found = plan(mesh, roles=roles, optimizer_sharding=sharding, training=batch).graph.blocks["layer"]
    assert set(movements(found, Phase.GATHER)) == {"all_gather over data"}
    assert set(movements(found, Phase.SCATTER)) == {"reduce_scatter over data"}
    assert set(movements(found, Phase.END)) == {"all_reduce over replica"}
    accumulator = found.values["mlp.down.weight.grad"]
    assert accumulator.layout == Layout(((), ()), (("replica", "sum"),), ("data",))


def test_tensor_parallel_weights_are_sharded_over_what_is_left():
    block = layer("fsdp", {"data": 2, "tensor": 2}, recipe="megatron")
    assert block.values["mlp.up.up.weight"].layout == Layout(((), ("tensor",)), flat=("data",))
    assert block.values["mlp.up.up.weight.gathered"].layout == Layout(((), ("tensor",)))
    assert set(movements(block, Phase.SCATTER)) == {"reduce_scatter over data"}


def test_tied_gradients_stay_partial_over_their_stages_until_the_end():
    graph = plan({"pipeline": 2, "data": 2}, model=GPT, optimizer_sharding="fsdp").graph
    block = next(graph.block_of(each) for each in graph.instances if each.name == "head")
    accumulator = block.values[block.gradients["logits.weight"]]
    assert accumulator.layout.partial_axes == ("pipeline[0,1]",)
    assert accumulator.layout.flat == ("data",)
    assert "all_reduce over pipeline[0,1]" in movements(block, Phase.END)


def test_several_gradients_of_one_parameter_are_added_before_they_are_scattered():
    kind = TensorType((8,), DType.FP32)
    whole = Layout(((),))
    nodes = [
        Node(f"back{i}", Add(("x",), 2), (f"g{i}", "w"), ("w.grad",), Phase.BACKWARD, strategy=Strategy())
        for i in range(2)
    ]
    values = {name: Value(kind, layout=whole) for name in ("g0", "g1")}
    values["w"] = Value(kind, Role.PARAMETER, whole)
    values["w.grad"] = Value(kind, Role.ACCUMULATOR, whole.with_partial(("data",)))
    block = Block("b", (), (), (), ("w",), values, tuple(nodes), {"w": "w.grad"})
    sharding = ShardingChoice(True, True, axes=("data",))
    homes = {"w": Layout(((),), flat=("data",))}
    router = RedistributionPlanner(MESH, lambda movement, size: float(size))
    made = add_unit_gathers(block, homes, sharding, lambda dtype: dtype, {}, MESH, router)
    first, second, added, scatter = made.nodes
    assert (first.outputs, second.outputs) == (("w.grad.whole0",), ("w.grad.whole1",))
    assert isinstance(added.operator, Add)
    assert (added.inputs, added.outputs) == (("w.grad.whole0", "w.grad.whole1"), ("w.grad.whole",))
    assert scatter.operator == Movement(MovementKind.REDUCE_SCATTER, ("data",), FLAT)
    assert (scatter.inputs, scatter.outputs) == (("w.grad.whole",), ("w.grad",))
    assert made.values["w.grad.whole"].role is Role.GRADIENT
