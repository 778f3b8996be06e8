"""Closed forms of collectives in chunks: two machines, kernels and network, through which n chunks go."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from simcluster.engine import run
from simcluster.layout import Dims, Kind, Layout, Mesh, Movement
from simcluster.model import Block, Graph, Instance, Node, Operator, Phase, Role, TensorType, Value
from simcluster.plan.chunks import in_chunks
from simcluster.plan.fuse import fuse
from simcluster.plan.overlap_spec import OverlapSpec
from simcluster.plan.schedule import parse
from simcluster.program import build, partition
from simcluster.work import DType, Kernel, Work
from tests.pipelines import quiet_cluster

ROWS, AXIS = 960, ("tensor",)
KIND = TensorType((ROWS, 4), DType.FP32)
WHOLE, PARTS = Layout.replicated(2), Layout.replicated(2).with_partial(AXIS)
ROWS_APART = Layout((AXIS, ()))
KERNEL = 960_000


@dataclass(frozen=True)
class Product(Operator):
    """A stand-in for a matmul: takes ``time`` nanoseconds for every row."""

    time: int
    kind = "product"
    family = "matmul"
    anywhere = True

    def infer(self, inputs):
        return tuple(inputs)

    def dims(self):
        return Dims((("rows", "columns"),), (("rows", "columns"),))

    def work(self, inputs, outputs, *, accumulate=False):
        return (Work(Kernel.ELEMENTWISE, DType.FP32, self.time * inputs[0].shape[0], 0, 0),)

    def evaluate(self, inputs, region):
        return (np.array(inputs[0]),)


def gathered() -> Graph:
    """A block that gathers what comes, multiplies it, and keeps the product."""
    values = {"x": Value(KIND, Role.FEED, ROWS_APART), "g": Value(KIND, layout=WHOLE)}
    values |= {"here": Value(KIND, layout=ROWS_APART), "y": Value(KIND, layout=WHOLE)}
    nodes = (
        Node("first", Product(0), ("x",), ("here",)),
        Node("gather", Movement(Kind.ALL_GATHER, AXIS, 0), ("here",), ("g",)),
        Node("product", Product(KERNEL // ROWS), ("g",), ("y",)),
    )
    return _graph(values, nodes)


def reduced(kind: Kind) -> Graph:
    """A block that multiplies, and adds the products of all ranks."""
    end = ROWS_APART if kind is Kind.REDUCE_SCATTER else WHOLE
    values = {
        "x": Value(KIND, Role.FEED, WHOLE),
        "y": Value(KIND, layout=PARTS),
        "z": Value(KIND, layout=end),
    }
    nodes = (
        Node("product", Product(KERNEL // ROWS), ("x",), ("y",)),
        Node("reduce", Movement(kind, AXIS, 0), ("y",), ("z",)),
    )
    return _graph(values, nodes)


def _graph(values, nodes) -> Graph:
    block = Block("block", ("x",), (), (), (), values, nodes)
    # A backward, which the schedule wants to run, that does nothing to speak of.
    last = nodes[-1].outputs[0]
    values["back"] = Value(KIND, Role.GRADIENT, values[last].layout)
    back = Node("back", Product(0), (last,), ("back",), Phase.BACKWARD)
    made = Block("block", block.feeds, (), (), (), values, (*nodes, back))
    return Graph({"block": made}, (Instance("block", "block"),))


def end_of(graph: Graph, chunks: int, gbps: float) -> int:
    """When the graph is over (ns) on two ranks, cut into so many chunks; 1: whole."""
    mesh = Mesh.of({"pipeline": 1, "tensor": 2})
    graph = fuse(graph, ())
    if chunks > 1:
        graph = in_chunks(graph, {"tensor": OverlapSpec(chunks=chunks, reductions="both")}, mesh)
        assert any(node.chunked for node in graph.blocks["block"].nodes)
    program = build(graph, (parse("F0 B0"),), mesh, "pipeline", overlapped=True, prefetch=1)
    cluster = quiet_cluster(2, bandwidth=f"{gbps} GB/s")
    return run(program, cluster, partition(program, cluster), steps=1).end


GRAPHS = {
    "gather": gathered(),
    "scatter": reduced(Kind.REDUCE_SCATTER),
    "all-reduce": reduced(Kind.ALL_REDUCE),
}


@pytest.mark.parametrize("which", GRAPHS)
@pytest.mark.parametrize("chunks", [2, 3, 4, 8])
@pytest.mark.parametrize("gbps", [0.002, 0.008, 0.016, 0.05])
def test_n_chunks_take_the_longer_of_both_and_a_chunk_of_the_other(which, chunks, gbps):
    graph = GRAPHS[which]
    whole = end_of(graph, 1, gbps)
    collective = whole - KERNEL
    found = end_of(graph, chunks, gbps)
    exact = max(KERNEL, collective) + min(KERNEL, collective) / chunks
    # Every kernel and collective takes whole nanoseconds; what cuts, one.
    assert found == pytest.approx(exact, abs=10 * chunks)
    assert found < whole


def test_collectives_here_take_from_a_tenth_to_several_times_as_long_as_the_kernel():
    """So that both sides of the maximum are met above."""
    shares = {
        (end_of(GRAPHS[which], 1, gbps) - KERNEL) / KERNEL for which in GRAPHS for gbps in (0.002, 0.05)
    }
    assert min(shares) < 0.5 and max(shares) > 2
