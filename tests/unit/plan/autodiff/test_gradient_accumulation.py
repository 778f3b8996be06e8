"""Accumulation of gradients: which kernels add to a buffer themselves, and what the others write."""

from __future__ import annotations

from simcluster.model import Phase, Role
from simcluster.plan.autodiff.gradient_accumulation import ALL, accumulate
from simcluster.work import DType
from tests.support import pass_graphs


def test_kernels_that_add_themselves_change_nothing():
    graph = pass_graphs.differentiated()
    assert accumulate(graph, ALL, DType.BF16) is graph


def test_other_kernels_write_a_term_that_one_more_kernel_adds():
    graph = pass_graphs.differentiated()
    before = graph.blocks["layer"]
    block = accumulate(graph, {"matmul"}, DType.BF16).blocks["layer"]
    added = [node for node in block.nodes if node.operator.kind == "accumulate"]
    assert [node.outputs for node in added] == [("mlp.norm.weight.grad",), ("attention.norm.weight.grad",)]
    for node in added:
        (term,) = node.inputs
        (maker,) = [other for other in block.nodes if term in other.outputs]
        assert block.nodes.index(node) == block.nodes.index(maker) + 1
        assert node.phase is Phase.BACKWARD
        assert block.values[term].type.dtype is DType.BF16
        assert block.values[term].role is Role.GRADIENT
    kept = [node for node in block.nodes if node not in added and "norm.grad" not in node.name]
    assert kept == [node for node in before.nodes if "norm.grad" not in node.name]


def test_a_term_of_another_format_may_be_cast_first():
    graph = pass_graphs.differentiated()
    block = accumulate(graph, {"matmul"}, DType.BF16, casts=True).blocks["layer"]
    casts = [node for node in block.nodes if node.operator.kind == "cast"]
    added = [node for node in block.nodes if node.operator.kind == "accumulate"]
    assert [node.inputs for node in added] == [node.outputs for node in casts]
    for node in casts:
        assert (node.operator.source, node.operator.target) == (DType.BF16, DType.FP32)
        assert block.values[node.inputs[0]].type.dtype is DType.BF16
        assert block.values[node.outputs[0]].type.dtype is DType.FP32
    same = accumulate(graph, {"matmul"}, DType.FP32, casts=True).blocks["layer"]
    assert not [node for node in same.nodes if node.operator.kind == "cast"]
