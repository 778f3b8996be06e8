"""The operators of a network, as a search sees them."""

from __future__ import annotations

from simcluster.layout import Strategy
from simcluster.plan.auto.operator_graph import OperatorGraph
from simcluster.work import DType
from tests.support.plan_graphs import GPT
from tests.support.searches import product_chain


def gpt(**fixed):
    return OperatorGraph.of(GPT.graph(2, 4, DType.FP32, 1), fixed)


def test_every_operator_of_every_instance_is_one_and_equal_ones_are_of_one_kind():
    graph = gpt()
    names = [vertex.name for vertex in graph.vertices]
    assert len(set(names)) == len(names)
    assert {"layers.0.mlp.up", "layers.1.mlp.up", "head.logits"} <= set(names)
    kinds = {vertex.name: vertex.kind for vertex in graph.vertices}
    assert kinds["layers.0.mlp.up"] == kinds["layers.1.mlp.up"] != kinds["layers.0.mlp.down"]


def test_edges_go_over_the_borders_of_blocks_and_to_all_readers():
    graph = gpt()
    ends = {
        (graph.vertices[edge.source].name, graph.vertices[edge.reader].name)
        for edge in graph.edges
        if not edge.parameter
    }
    assert ("layers.0.mlp.residual", "layers.1.attention.norm") in ends
    assert ("layers.0.mlp.residual", "layers.1.attention.residual") in ends
    assert ("layers.0.attention.norm", "layers.0.attention.qkv") in ends


def test_a_tied_parameter_joins_its_readers():
    graph = gpt()
    (tied,) = (edge for edge in graph.edges if edge.parameter)
    assert graph.vertices[tied.source].name == "embedding.tokens"
    assert graph.vertices[tied.reader].name == "head.logits"
    assert graph.kind_of(tied.source).dims.inputs[tied.source_index] == ("vocab", "hidden")


def test_gradients_are_of_parameters_and_of_what_depends_on_them():
    first, second = OperatorGraph.of(product_chain((4, 4), (4, 4)), {}).kinds
    assert (first.parameters, first.trained) == (frozenset({1}), frozenset({1}))
    assert (second.parameters, second.trained) == (frozenset({1}), frozenset({0, 1}))


def test_what_is_fixed_is_a_kind_of_its_own():
    strategy = Strategy.of({"batch": ("data",)})
    graph = gpt(**{"layers.1": {"mlp.up": strategy}})
    of = {vertex.name: graph.kinds[vertex.kind] for vertex in graph.vertices}
    assert of["layers.1.mlp.up"].fixed == strategy
    assert of["layers.0.mlp.up"].fixed is None
    assert of["layers.0.mlp.down"] is of["layers.1.mlp.down"]


def test_operators_that_look_at_each_element_alone():
    kinds = {kind.node: kind for kind in gpt().kinds}
    assert kinds["mlp.activation"].elementwise
    assert kinds["mlp.up.bias"].elementwise
    assert not kinds["mlp.up"].elementwise
    assert not kinds["mlp.norm"].elementwise
