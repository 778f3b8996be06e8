from __future__ import annotations

from dataclasses import replace

import pytest

from simcluster.model import Block, Graph, Instance, Node, Phase, Role, TensorType, Value
from simcluster.model.operators.activation import Gelu
from simcluster.work import DType

KIND = TensorType((2, 3), DType.FP32)
GELU = Gelu(("batch", "hidden"))


def block(name, parameters=("weight",)):
    values = {
        "in": Value(KIND),
        "out": Value(KIND),
        **{each: Value(KIND, Role.PARAMETER) for each in parameters},
    }
    nodes = (
        Node("act", GELU, ("in",), ("out",)),
        Node("act.grad", GELU, ("in",), ("in.grad",), Phase.BACKWARD, origin="act"),
    )
    return Block(name, (), ("in",), ("out",), parameters, values, nodes)


GRAPH = Graph(
    {"one": block("one"), "two": block("two", ("weight", "bias"))},
    (Instance("a", "one"), Instance("b", "two", ("a:out",)), Instance("c", "one", ("b:out",), stage=1)),
    (("a.weight", "c.weight"),),
)


def test_every_instance_has_its_own_parameters_but_tied_ones():
    assert [name for name, _ in GRAPH.parameters()] == ["a.weight", "b.weight", "b.bias"]
    assert GRAPH.num_parameters == 18
    assert GRAPH.canonical("c.weight") == GRAPH.canonical("a.weight") == "a.weight"
    assert GRAPH.canonical("b.bias") == "b.bias"


def test_nodes_come_in_the_order_of_instances():
    assert [f"{instance.name}.{node.name}" for instance, node in GRAPH.nodes()] == [
        "a.act",
        "a.act.grad",
        "b.act",
        "b.act.grad",
        "c.act",
        "c.act.grad",
    ]
    assert GRAPH.block_of(GRAPH.instances[1]) is GRAPH.blocks["two"]


def test_an_output_has_a_name_of_its_own_in_the_graph():
    assert GRAPH.instances[0].output("out") == "a:out"


def test_a_block_finds_nodes_by_phase_and_name():
    one = GRAPH.blocks["one"]
    assert [node.name for node in one.phase(Phase.FORWARD)] == ["act"]
    assert [node.name for node in one.phase(Phase.FORWARD, Phase.BACKWARD)] == ["act", "act.grad"]
    assert one.node("act.grad").source == "act"
    assert one.node("act").source == "act"
    with pytest.raises(StopIteration):
        one.node("nothing")


def test_other_blocks_under_the_same_names():
    blocks = {**GRAPH.blocks, "one": block("one", ())}
    made = GRAPH.with_blocks(blocks)
    assert made.instances == GRAPH.instances
    assert made.num_parameters == 12


def test_instances_with_one_key_share_a_block_of_their_own():
    seen = []

    def rewrite(block, instance):
        seen.append((block.name, instance.name))
        return replace(block, recomputed=instance.stage == 1)

    keys = {"a": (), "b": ("stage", 1), "c": ("stage", 1)}
    made = GRAPH.specialised(keys, rewrite, lambda key, keys: f".{keys.index(key)}" if len(keys) > 1 else "")
    assert [instance.block for instance in made.instances] == ["one.0", "two", "one.1"]
    assert {name: block.name for name, block in made.blocks.items()} == {name: name for name in made.blocks}
    assert [block.recomputed for block in made.blocks.values()] == [False, True, False]
    assert seen == [("one", "a"), ("one", "c"), ("two", "b")]
    assert made.ties == GRAPH.ties
    assert len(GRAPH.specialised(dict.fromkeys("abc", ()), rewrite, lambda key, keys: "").blocks) == 2
