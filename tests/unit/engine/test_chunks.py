"""Closed forms of collectives in chunks: two machines, kernels and network, through which n chunks go."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from simcluster.engine import Workload, run
from simcluster.layout import Dims, Layout, Mesh, Movement, MovementKind
from simcluster.model import Block, Graph, Instance, Node, Operator, Phase, Role, TensorType, Value
from simcluster.plan.execution.kernel_fusion import fuse
from simcluster.plan.overlap.collective_matmul import chunk_collectives
from simcluster.plan.pipeline.schedule import parse
from simcluster.plan.spec.overlap_spec import OverlapSpec
from simcluster.program import build, partition_ranks
from simcluster.work import DType, Kernel, Work
from tests.support.pipelines import plan_of, quiet_cluster

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
        Node("gather", Movement(MovementKind.ALL_GATHER, AXIS, 0), ("here",), ("g",)),
        Node("product", Product(KERNEL // ROWS), ("g",), ("y",)),
    )
    return _graph(values, nodes)


def reduced(kind: MovementKind) -> Graph:
    """A block that multiplies, and adds the products of all ranks."""
    end = ROWS_APART if kind is MovementKind.REDUCE_SCATTER else WHOLE
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


def end_of(graph: Graph, chunks: int, gbps: float, reach: str = "matmul") -> int:
    """When the graph is over (ns) on two ranks, cut into so many chunks; 1: whole."""
    mesh = Mesh.of({"pipeline": 1, "tensor": 2})
    graph = fuse(graph, ())
    if chunks > 1:
        graph = chunk_collectives(
            graph, {"tensor": OverlapSpec(chunks=chunks, reductions="both", reach=reach)}, mesh
        )
        assert any(node.chunked for node in graph.blocks["block"].nodes)
    program = build(plan_of(graph, (parse("F0 B0"),), mesh))
    cluster = quiet_cluster(2, bandwidth=f"{gbps} GB/s")
    return run(Workload(program, cluster, partition_ranks(program, cluster), steps=1)).end


GRAPHS = {
    "gather": gathered(),
    "scatter": reduced(MovementKind.REDUCE_SCATTER),
    "all-reduce": reduced(MovementKind.ALL_REDUCE),
}


@pytest.mark.combinations
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


def alternating(pairs: int) -> Graph:
    """A block of products, each of which is added over the ranks before the next reads it."""
    values = {"x0": Value(KIND, Role.FEED, WHOLE)}
    nodes = []
    for number in range(pairs):
        part, end = f"y{number}", f"x{number + 1}"
        values |= {part: Value(KIND, layout=PARTS), end: Value(KIND, layout=WHOLE)}
        nodes.append(Node(f"product{number}", Product(KERNEL // ROWS), (f"x{number}",), (part,)))
        nodes.append(Node(f"sum{number}", Movement(MovementKind.ALL_REDUCE, AXIS), (part,), (end,)))
    return _graph(values, tuple(nodes))


@pytest.mark.combinations
@pytest.mark.parametrize("pairs", [1, 2, 5])
@pytest.mark.parametrize("chunks", [2, 3, 4])
@pytest.mark.parametrize("gbps", [0.004, 0.016, 0.05])
def test_chunks_that_take_turns_in_all_of_a_layer_expose_one_of_them(pairs, chunks, gbps):
    """As copies do: they follow each other by the longer of both, and none is overtaken by itself."""
    graph = alternating(pairs)
    collective = end_of(graph, 1, gbps) / pairs - KERNEL
    found = end_of(graph, chunks, gbps, reach="layer")
    longer, both = max(KERNEL, collective) / chunks, (KERNEL + collective) / chunks
    exact = (pairs - 1) * max(chunks * longer, both) + (chunks - 1) * longer + both
    assert found == pytest.approx(exact, abs=20 * chunks * pairs)
    # With one matmul each, a collective's last chunk is exposed every time.
    apart = pairs * (max(KERNEL, collective) + min(KERNEL, collective) / chunks)
    assert end_of(graph, chunks, gbps) == pytest.approx(apart, abs=20 * chunks * pairs)
    assert apart > found + 20 * chunks or pairs == 1
