from __future__ import annotations

from dataclasses import replace

from simcluster.model.operators.activation import Relu
from simcluster.plan.sharding.propagation_edges import edges_of
from simcluster.work import DType
from tests.support.plan_graphs import Writer, chain


def edges(dtype):
    """What is read of a feed, then of a product with a parameter whose result has this number format."""
    write = Writer("net")
    x = write.feed("in", 8, 16, dtype=DType.FP32)
    x = write.add("start", Relu(("batch", "in")), x)
    y = write.matmul("product", x, write.parameter("w", 16, 32), "batch in, in out -> batch out")
    y = write.add("end", Relu(("batch", "out")), y)
    graph = chain(write.block(y))
    (block,) = graph.blocks.values()
    values = dict(block.values)
    for name in block.nodes[1].outputs:
        values[name] = replace(values[name], type=replace(values[name].type, dtype=dtype))
    found = edges_of(graph.with_blocks({block.name: replace(block, values=values)}), {"net": 0})
    return {(each.source.vertex[1], each.reader.vertex[1]): each.trained for each in found}


def test_a_gradient_comes_back_where_parameters_led_to_a_tensor():
    assert edges(DType.FP32) == {("start", "product"): False, ("product", "end"): True}


def test_whole_numbers_have_no_gradient_whatever_led_to_them():
    assert edges(DType.INT32) == {("start", "product"): False, ("product", "end"): False}
