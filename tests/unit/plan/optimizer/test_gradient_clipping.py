"""Gradient clipping: what is counted, over which axes the norm is reduced, and what waits for it."""

from __future__ import annotations

import numpy as np
import pytest

from simcluster.layout import Movement, MovementKind
from simcluster.model import Phase, Role
from simcluster.model.operators.clip import ClipFactor, ScaleGradient, SumOfSquares, clip_factor
from simcluster.model.operators.optimizer import Update
from simcluster.plan.optimizer.gradient_clipping import CLIP, FACTOR, SQUARES, clip
from tests.support import pass_graphs
from tests.support.plan_graphs import router, told
from tests.support.planned import GPT, plan

SGD = {"optimizer": {"kind": "sgd", "clip": 0.05}, "precision": "fp32"}
MESH = {"pipeline": 2, "data": 2, "tensor": 2}


def of(block, operator):
    return [node for node in block.nodes if isinstance(node.operator, operator)]


def reduced_over(graph):
    movements = [n.operator for n in graph.blocks[CLIP].nodes if isinstance(n.operator, Movement)]
    assert {each.kind for each in movements} <= {MovementKind.ALL_REDUCE}
    axes = [axis for each in movements for axis in each.axes]
    assert len(axes) == len(set(axes))
    return set(axes)


@pytest.mark.parametrize(
    ("mesh", "zero", "axes"),
    [
        ({"data": 4}, 0, set()),
        ({"data": 4}, 1, {"data"}),
        ({"data": 2, "tensor": 2}, 0, {"tensor"}),
        ({"data": 2, "tensor": 2}, 1, {"data", "tensor"}),
        ({"pipeline": 2, "data": 2}, 0, {"pipeline"}),
        (MESH, 1, {"data", "tensor", "pipeline"}),
    ],
)
def test_the_norm_is_reduced_over_the_stages_and_what_splits_gradients(mesh, zero, axes):
    graph = plan(mesh, training=SGD, optimizer_sharding={"zero": zero}).graph
    assert reduced_over(graph) == axes


def test_every_gradient_is_counted_once_and_scaled_once():
    graph = plan(MESH, training=SGD).graph
    for name, block in graph.blocks.items():
        if name == CLIP:
            continue
        updates = of(block, Update)
        gradients = [node.inputs[0] for node in of(block, ScaleGradient)]
        assert [node.inputs[0] for node in of(block, SumOfSquares)] == gradients
        assert [node.inputs[1] for node in updates] == [node.outputs[0] for node in of(block, ScaleGradient)]
        assert {node.inputs[1] for node in of(block, ScaleGradient)} == {FACTOR}
        for node in of(block, SumOfSquares):
            assert node.outputs == (SQUARES,)
            axes = {axis for _, axes in node.masked for axis in axes}
            layout = block.values[node.inputs[0]].layout
            assert axes == {"tensor"} - set(layout.axes)


def test_a_tied_parameter_counts_on_its_first_stage_only():
    graph = plan({"pipeline": 3, "data": 2}, model=GPT, training=SGD).graph
    blocks = {each.name: graph.block_of(each) for each in graph.instances}
    assert "tokens.weight" in {node.origin for node in of(blocks["embedding"], SumOfSquares)}
    assert "logits.weight" not in {node.origin for node in of(blocks["head"], SumOfSquares)}
    assert "logits.weight" in {node.origin for node in of(blocks["head"], ScaleGradient)}


def test_nothing_is_clipped_unless_asked():
    graph = plan(MESH).graph
    assert CLIP not in graph.blocks
    assert not any(of(block, (SumOfSquares, ScaleGradient, ClipFactor)) for block in graph.blocks.values())


def test_shared_values_take_no_activation_memory():
    block = plan(MESH, training=SGD).graph.blocks["layer"]
    assert block.shared == (SQUARES, FACTOR)
    assert block.values[SQUARES].role is Role.ACCUMULATOR
    assert {node.phase for node in of(block, (SumOfSquares, ScaleGradient))} == {Phase.END}


@pytest.mark.parametrize(("squares", "limit", "factor"), [(4.0, 1.0, 0.5), (4.0, 3.0, 1.0), (0.0, 1.0, 1.0)])
def test_the_factor(squares, limit, factor):
    assert clip_factor(np.asarray(squares), limit) == pytest.approx(factor, rel=1e-6)


def test_the_pass_counts_and_scales_between_reduction_and_update():
    before = pass_graphs.optimized()
    graph = clip(before, 0.5, pass_graphs.MESH, router(pass_graphs.MESH), "pipeline")
    assert [each.name for each in graph.instances] == [f"{CLIP}.0", *(i.name for i in before.instances)]
    assert told(graph.blocks[CLIP]) == ["all_reduce tensor"]
    assert [node.operator.limit for node in of(graph.blocks[CLIP], ClipFactor)] == [0.5]
    old, block = (one.blocks["layer"] for one in (before, graph))
    kinds = [type(node.operator) for node in block.phase(Phase.END)]
    count = len(block.parameters)
    own = [Movement, SumOfSquares, ScaleGradient, type(pass_graphs.ADAM)]
    assert kinds == [kind for kind in own for _ in range(count)]
    for update, plain in zip(of(block, Update), of(old, Update), strict=True):
        assert update.inputs[1] == f"{plain.inputs[1]}.clipped"
    both = (Phase.FORWARD, Phase.BACKWARD)
    assert list(block.phase(*both)) == list(old.phase(*both))
