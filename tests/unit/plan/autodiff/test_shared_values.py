"""Values that several instances read: T5's encoder output and relative positions."""

from __future__ import annotations

import pytest

from simcluster.layout import Layout
from simcluster.model import Instance, Phase, Role
from tests.support.plan_graphs import told
from tests.support.planned import plan

T5 = {"family": "t5", "encoder_layers": 2, "decoder_layers": 3, "hidden": 16, "heads": 4, "vocab": 64}
T5 |= {"buckets": 8, "max_distance": 6}
FORWARD, BACKWARD = Phase.FORWARD, Phase.BACKWARD


def t5(mesh, **given):
    return plan(mesh, model={**T5, **given.pop("model", {})}, **given)


def block(found, instance):
    return next(found.graph.block_of(each) for each in found.graph.instances if each.name == instance)


# -- where they are -------------------------------------------------------------------------------------


def test_layers_of_both_sides_are_spread_in_order_and_what_is_between_follows_what_it_reads():
    found = t5({"pipeline": 3}, schedule={"stages": [1, 2, 2]})
    stages = {each.name: each.stage for each in found.graph.instances}
    assert stages == {
        "encoder.embedding": 0,
        "encoder.positions": 0,
        "encoder.positions.1": 1,
        "encoder.layers.0": 0,
        "encoder.layers.1": 1,
        "encoder.output": 1,
        "decoder.embedding": 1,
        "decoder.positions": 1,
        "decoder.positions.2": 2,
        "decoder.layers.0": 1,
        "decoder.layers.1": 2,
        "decoder.layers.2": 2,
        "head": 2,
    }


def test_a_decoder_that_begins_a_stage_has_its_embedding_there():
    found = t5({"pipeline": 2}, schedule={"stages": [2, 3]})
    stages = {each.name: each.stage for each in found.graph.instances}
    assert (stages["encoder.output"], stages["decoder.embedding"], stages["decoder.positions"]) == (0, 1, 1)
    assert "encoder.positions.1" not in stages


def test_what_is_made_of_parameters_alone_is_made_on_every_stage_that_reads_it():
    found = t5({"pipeline": 3}, schedule={"stages": [1, 2, 2]})
    for each in found.graph.instances:
        for value in each.inputs:
            maker = value.partition(":")[0]
            if "positions" in maker:
                stage = next(other.stage for other in found.graph.instances if other.name == maker)
                assert stage == each.stage, f"{each.name} reads {value} of another stage"
    assert ("encoder.positions.bias.weight", "encoder.positions.1.bias.weight") in found.graph.ties
    assert ("decoder.positions.bias.weight", "decoder.positions.2.bias.weight") in found.graph.ties


def test_copies_are_no_parameters_of_their_own():
    tables = 2 * 8 * 4
    whole, split = (t5(mesh).graph.num_parameters for mesh in ({"data": 1}, {"pipeline": 3}))
    assert whole == split
    assert (
        sum(kind.num_elements for name, kind in t5({"pipeline": 3}).graph.parameters() if "bias" in name)
        == tables
    )


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        ("layers.3", True),
        ("decoder.layers.0", True),
        ("encoder.output", False),
        ("embedding", False),
        ("multilayers.0", False),
    ],
)
def test_layers_are_told_by_their_names(name, layer):
    assert Instance(name, "layer").is_layer is layer


# -- their gradients ------------------------------------------------------------------------------------


def test_readers_add_to_one_gradient():
    layer = block(t5({"data": 2}), "decoder.layers.1")
    roles = {name: layer.values[layer.gradients[name]].role for name in layer.inputs}
    assert roles == {"in": Role.GRADIENT, "bias": Role.SUM, "memory": Role.SUM}
    assert {layer.gradients["bias"], layer.gradients["memory"]} == {"bias.grad", "memory.grad"}


@pytest.mark.parametrize("layers", [1, 3])
def test_data_parallel_gradients_of_positions_are_reduced_once_per_step(layers):
    """Not the bias of every layer and micro-batch, [heads, s, s], but the table; one reader or more."""
    found = t5({"data": 2}, model={"encoder_layers": layers, "decoder_layers": layers})
    for each in found.graph.instances:
        assert told(found.graph.block_of(each), FORWARD, BACKWARD) == []
    table = block(found, "encoder.positions")
    assert table.values["out.grad"].layout.partial_axes == ("data",)
    assert table.values["bias.weight.grad"].layout.partial_axes == ("data",)
    assert told(table, Phase.END) == ["all_reduce data"]


def test_tensor_parallel_parts_of_the_encoders_gradient_are_reduced_once():
    """Two all-reduces each way per encoder layer, three per decoder layer; one for what all of them read."""
    found = t5({"tensor": 2}, recipe="megatron")
    counts = {
        name: (len(told(block(found, name), FORWARD)), len(told(block(found, name), BACKWARD)))
        for name in ("encoder.layers.0", "decoder.layers.0", "encoder.output")
    }
    assert counts == {"encoder.layers.0": (2, 2), "decoder.layers.0": (3, 3), "encoder.output": (0, 1)}
    layer = block(found, "decoder.layers.0")
    assert layer.values["memory.grad"].layout == Layout(((), (), ()), (("tensor", "sum"),))
    assert layer.values["bias.grad"].layout == layer.values["bias"].layout
    assert layer.values["bias"].layout.dims[0] == ("tensor",)


def test_sequence_parallel_parts_are_scattered_where_they_arise():
    """Every decoder layer gathers the encoder's output and scatters its part of the gradient."""
    found = t5({"tensor": 2}, recipe="megatron_sp")
    layer, output = block(found, "decoder.layers.0"), block(found, "encoder.output")
    home = Layout(((), ("tensor",), ()))
    assert output.values["out"].layout == layer.values["memory.grad"].layout == home
    assert told(output) == ["all_reduce tensor"]  # its scale's gradient, once per step
    assert [node.name for node in layer.nodes if node.outputs == ("memory.grad",)] == [
        "cross.kv.dgrad.reduce_scatter"
    ]
    assert sum("memory" in node.name for node in layer.nodes if node.phase is FORWARD) == 1


def test_no_large_operator_of_a_family_is_replicated():
    """Under the tensor recipes every matmul of a layer and the vocabulary is split."""
    for recipe in ("megatron", "megatron_sp"):
        found = t5({"tensor": 2}, recipe=recipe)
        for each in found.graph.instances:
            for name, strategy in found.strategies.of(each.name).items():
                operator = (
                    found.logical.block_of(
                        next(other for other in found.logical.instances if other.name == each.name)
                    )
                    .node(name)
                    .operator
                )
                if operator.kind in ("matmul", "attention", "embedding", "cross_entropy", "relative_bias"):
                    assert any("tensor" in axes for _, axes in strategy.splits), f"{each.name}.{name}"
