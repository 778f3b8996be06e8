"""fp32 weights under automatic mixed precision: cast once for a micro-batch, or again for its backward."""

from __future__ import annotations

from simcluster.model import Phase
from simcluster.model.operators.cast import Cast
from simcluster.plan.precision.weight_casts import cast_weights, recast_in_backward
from simcluster.work import DType
from tests.support import pass_graphs


def casts(block):
    return [node for node in block.nodes if isinstance(node.operator, Cast)]


def test_every_parameter_is_fp32_and_read_through_one_cast():
    graph = pass_graphs.differentiated(DType.BF16)
    before, block = (one.blocks["layer"] for one in (graph, cast_weights(graph)))
    assert {before.values[name].type.dtype for name in block.parameters} == {DType.BF16}
    assert {block.values[name].type.dtype for name in block.parameters} == {DType.FP32}
    assert {node.inputs[0] for node in casts(block)} == set(block.parameters)
    assert {node.phase for node in casts(block)} == {Phase.FORWARD}
    others = [node for node in block.nodes if node not in casts(block)]
    for node, old in zip(others, before.nodes, strict=True):
        read = [f"{name}.cast" if name in block.parameters else name for name in old.inputs]
        assert (node.name, list(node.inputs)) == (old.name, read)
    assert {block.values[node.outputs[0]].type.dtype for node in casts(block)} == {DType.BF16}


def test_parameters_of_that_format_are_not_cast():
    graph = pass_graphs.differentiated()
    assert cast_weights(graph).blocks == graph.blocks


def test_what_the_backward_reads_is_cast_again_in_front_of_it():
    once = cast_weights(pass_graphs.differentiated(DType.BF16))
    before, block = (one.blocks["layer"] for one in (once, recast_in_backward(once)))
    read = {value for node in before.phase(Phase.BACKWARD) for value in node.inputs}
    again = [node for node in casts(block) if node.phase is Phase.BACKWARD]
    assert {node.name for node in again} == {
        f"{node.name}.again" for node in casts(before) if node.outputs[0] in read
    }
    assert list(block.phase(Phase.BACKWARD))[: len(again)] == again
    late = {value for node in block.phase(Phase.BACKWARD) for value in node.inputs}
    assert late.isdisjoint(value for node in before.phase(Phase.FORWARD) for value in casts_of(node))
    assert list(block.phase(Phase.FORWARD)) == list(before.phase(Phase.FORWARD))


def casts_of(node):
    return node.outputs if isinstance(node.operator, Cast) else ()
