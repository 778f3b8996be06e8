"""LAMB where parameters lie whole, and where they lie split."""

from __future__ import annotations

import pytest

from simcluster.layout import Movement, MovementKind
from simcluster.model import Operator, Phase, Role
from simcluster.model.operators.clip import SumOfSquares
from simcluster.model.operators.optimizer_lamb import Lamb, LambDirection, LambStep
from simcluster.simulation import build_scenario, verify
from tests.support.planned import plan
from tests.support.scenarios import TINY, TINY_GPT, scenario

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


def test_lamb_holds_what_adam_holds():
    found = {}
    for kind in ("adamw", "lamb"):
        built = build_scenario(scenario({"data": 2, "tensor": 2}, training={"optimizer": kind}))
        found[kind] = sum(each.num_bytes for each in built.program.parts[0].residents)
    assert found["lamb"] == found["adamw"]


@pytest.mark.combinations
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("zero", [0, 1])
@pytest.mark.parametrize("model", [TINY, TINY_GPT], ids=["llama", "gpt"])
@pytest.mark.parametrize(
    "mesh", [{"data": 4}, {"data": 3, "tensor": 2}, {"pipeline": 2, "data": 2, "tensor": 2}]
)
def test_ranks_step_as_one_device_does(mesh, model, zero, precision):
    which = scenario(
        mesh, model=model, training={**LAMB, "precision": precision}, optimizer_sharding={"zero": zero}
    )
    found = verify(which)
    assert found.agrees, found.fault or found.first_difference


def test_without_decay_lamb_is_verified_with_some():
    found = verify(scenario({"data": 2}, model=TINY_GPT, training={"optimizer": "lamb"}))
    assert found.agrees, found.fault or found.first_difference
    assert ("weight_decay", "0.0", "0.01") in found.changes
