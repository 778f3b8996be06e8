"""LAMB where parameters lie whole, and where they lie split."""

from __future__ import annotations

from simcluster.layout import Movement, MovementKind
from simcluster.model import Operator, Phase, Role
from simcluster.model.operators.clip import SumOfSquares
from simcluster.model.operators.optimizer_lamb import Lamb, LambDirection, LambStep
from simcluster.plan.optimizer.update_decomposition import decompose_updates
from tests.support import pass_graphs
from tests.support.plan_graphs import router
from tests.support.planned import plan

LAMB = {"optimizer": {"kind": "lamb", "weight_decay": 0.05}, "precision": "fp32"}


def end(block):
    """The operators of the end phase and the movements after the first of them."""
    nodes = list(block.phase(Phase.END))
    first = next(i for i, node in enumerate(nodes) if isinstance(node.operator, Operator))
    return nodes[first:]


def test_a_whole_parameter_is_updated_by_one_operator():
    layer = plan({"data": 4}, training=LAMB).graph.blocks["layer"]
    assert {type(node.operator) for node in end(layer)} == {Lamb}


def test_what_needs_no_sum_comes_first_and_sums_travel_together():
    layer = plan({"data": 2, "tensor": 2}, training=LAMB, optimizer_sharding={"zero": 1}).graph.blocks[
        "layer"
    ]
    kinds = [
        node.operator.kind if isinstance(node.operator, Movement) else type(node.operator)
        for node in end(layer)
    ]
    count = len(layer.parameters)
    assert (
        kinds
        == [LambDirection, SumOfSquares] * count + [MovementKind.ALL_REDUCE] * 2 * count + [LambStep] * count
    )


def test_norms_are_reduced_over_the_axes_that_split_the_states():
    graph = plan({"data": 2, "tensor": 2}, training=LAMB, optimizer_sharding={"zero": 1}).graph
    for block in graph.blocks.values():
        for node in end(block):
            if isinstance(node.operator, Movement):
                home = block.values[f"{node.origin}.moment1"].layout
                assert set(node.operator.axes) == set(home.axes)


def test_parameters_that_lie_whole_beside_others_stay_whole():
    layer = plan({"data": 2, "tensor": 2}, training=LAMB).graph.blocks["layer"]
    whole = {node.origin for node in end(layer) if isinstance(node.operator, Lamb)}
    assert whole == {"attention.norm.weight", "mlp.norm.weight"}
    split = {node.origin for node in end(layer) if isinstance(node.operator, LambStep)}
    assert whole | split == set(layer.parameters)


def test_a_direction_lies_where_the_gradient_was():
    layer = plan({"data": 2, "tensor": 2}, training=LAMB).graph.blocks["layer"]
    for node in end(layer):
        if isinstance(node.operator, LambDirection):
            direction = layer.values[node.outputs[0]]
            gradient = layer.values[node.inputs[1]]
            assert (direction.role, direction.layout) == (Role.VIEW, gradient.layout)


def test_the_pass_changes_updates_of_split_states_alone():
    before = pass_graphs.optimized(update=Lamb())
    graph = decompose_updates(before, router(pass_graphs.MESH))
    old, block = (one.blocks["layer"] for one in (before, graph))
    whole = [node.origin for node in end(block) if isinstance(node.operator, Lamb)]
    assert whole == ["attention.norm.weight", "mlp.norm.weight"]
    split = [name for name in block.parameters if name not in whole]
    steps = [node for node in end(block) if isinstance(node.operator, LambStep)]
    assert [node.origin for node in steps] == split
    for node in steps:
        (update,) = [other for other in end(old) if other.origin == node.origin]
        assert node.outputs[0] == update.outputs[0]
    both = (Phase.FORWARD, Phase.BACKWARD)
    assert list(block.phase(*both)) == list(old.phase(*both))


def test_the_pass_has_nothing_to_do_for_adam():
    graph = pass_graphs.optimized()
    assert decompose_updates(graph, router(pass_graphs.MESH)).blocks == graph.blocks
