"""Which parameters stay whole though weights are sharded, per instance; and what is then cast and added."""

from __future__ import annotations

from dataclasses import replace

from simcluster.model import Phase
from simcluster.model.operators.cast import Cast
from simcluster.plan.autodiff.gradient_accumulation import accumulate
from simcluster.plan.optimizer.unsharded_parameters import whole_parameters
from simcluster.plan.precision.weight_casts import cast_chosen_weights, recast_in_backward
from simcluster.plan.spec.optimizer_sharding import ShardingChoice
from simcluster.work import DType
from tests.support import pass_graphs

SHARDED = ShardingChoice(True, True, True, split="rows", axes=("data",))


def whole(**changes):
    graph = pass_graphs.sharded(dtype=DType.BF16)
    return graph, whole_parameters(graph, replace(SHARDED, **changes), DType.FP32, pass_graphs.MESH)


UNEVEN = {"attention.out.weight"}
"""A group of heads on each tensor rank: its first dim does not divide over data."""


def test_only_a_first_dim_that_does_not_divide_is_whole():
    graph, found = whole()
    assert {*found} == {instance.name for instance in graph.instances}
    assert found["layers.0"] == found["layers.1"] == UNEVEN


def test_what_is_smaller_than_the_threshold_counts_in_the_stored_format():
    graph, found = whole(min_bytes=8 * 4)
    assert not found["layers.0"] & {"attention.norm.weight"}, "8 elements of 4 bytes are not fewer"
    _, found = whole(min_bytes=8 * 4 + 1)
    assert "attention.norm.weight" in found["layers.0"]
    assert graph.block_of(graph.instances[0]).parameters


def test_patterns_spare_single_instances_whose_weights_alone_are_cast():
    graph, found = whole(whole=("layers.1.*",))
    assert found["layers.0"] == UNEVEN
    made = recast_in_backward(cast_chosen_weights(graph, found))
    blocks = {each.name: made.block_of(each) for each in made.instances}
    assert found["layers.1"] == {*blocks["layers.1"].parameters}
    casts = {
        name: {node.inputs[0] for node in block.nodes if isinstance(node.operator, Cast)}
        & {*block.parameters}
        for name, block in blocks.items()
    }
    assert casts["layers.1"] == found["layers.1"]
    assert casts["layers.0"] == UNEVEN


def test_only_gradients_that_are_not_scattered_have_an_addition():
    graph, found = whole(whole=("layers.1.mlp.*",))
    made = accumulate(graph, (), DType.BF16, chosen=found)
    blocks = {each.name: made.block_of(each) for each in made.instances}
    added = {
        name: {node.outputs[0] for node in block.phase(Phase.BACKWARD) if node.name.endswith(".accumulate")}
        for name, block in blocks.items()
    }
    for name, block in blocks.items():
        assert added[name] == {block.gradients[parameter] for parameter in found[name]}
    assert len(added["layers.1"]) > len(added["layers.0"])
