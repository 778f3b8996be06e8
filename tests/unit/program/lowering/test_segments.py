"""Codes cut where a kernel waits for a collective, kernels of several operators, and launches of graphs."""

from __future__ import annotations

from simcluster.layout import Movement, MovementKind
from simcluster.model import Node
from simcluster.program.lowering.fused_kernel import fused_work
from simcluster.program.lowering.graph_launch import dispatch_costs
from simcluster.program.lowering.segments import phase_of, split_into_segments
from simcluster.work import DType, Kernel, Work
from tests.support.instruction_blocks import instruction
from tests.support.pipelines import Burn


def kernel(name, reads, **more):
    return Node(name, Burn(1), tuple(reads), (name,), **more)


def gather(name, value, **more):
    return Node(name, Movement(MovementKind.ALL_GATHER, ("tensor",), 0), (value,), (name,), **more)


def names(segments):
    return {str(name): [node.name for node in nodes] for name, nodes in segments.items()}


def test_a_segment_ends_where_a_kernel_reads_what_a_collective_of_it_makes():
    nodes = [kernel("a", ["x"]), gather("g", "a"), kernel("b", ["a"]), kernel("c", ["g"]), kernel("d", ["g"])]
    segments = split_into_segments({"forward": nodes, "update": nodes}, ["forward"])
    assert names(segments) == {
        "forward": ["a", "g", "b"],
        "forward.1": ["c", "d"],
        "update": ["a", "g", "b", "c", "d"],
    }
    assert [phase_of(name) for name in segments] == ["forward", "forward", "update"]


def test_a_collective_that_needs_nothing_of_its_segment_starts_with_the_one_before():
    nodes = [kernel("a", ["x"]), gather("g", "a"), kernel("w", ["a"])]
    nodes += [kernel("b", ["g"]), gather("h", "w"), kernel("c", ["b", "h"])]
    assert names(split_into_segments({"forward": nodes}, ["forward"])) == {
        "forward": ["a", "g", "w", "h"],
        "forward.1": ["b", "c"],
    }


def test_a_function_that_is_one_graph_stays_in_one_segment():
    nodes = [gather("g", "x", piece="f"), kernel("a", ["g"], piece="f"), kernel("b", ["a"], piece="f")]
    assert names(split_into_segments({"forward": nodes}, ["forward"])) == {"forward": ["g", "a", "b"]}


def test_the_leading_kernel_prices_fused_operators_and_what_stays_inside_moves_nothing():
    product = Work(Kernel.GEMM, DType.BF16, 100, 40, 10, sizes=(("m", 1),))
    activation = Work(Kernel.ELEMENTWISE, DType.FP32, 5, 10, 10)
    assert fused_work([(product, activation)], (0, 0)) == (product, activation)
    assert fused_work([(activation,), (product,)], (10, 10)) == (
        Work(Kernel.GEMM, DType.BF16, 105, 40, 10, sizes=(("m", 1),)),
    )
    assert fused_work([(), ()], (0, 0)) == ()


def test_a_graph_is_launched_with_its_first_kernel():
    works = (Work(Kernel.ELEMENTWISE, DType.FP32, 1, 0, 0),)
    before = [
        instruction("alone", works=works),
        instruction("view", piece="f"),
        instruction("first", works=works, piece="f"),
        instruction("second", works=works, piece="f"),
    ]
    assert [made.dispatch_cost for made in dispatch_costs(before, 2.5)] == [1.0, 0.0, 2.5, 0.0]
