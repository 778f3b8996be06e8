"""The reference's golden examples of operator-level parallelism: slices, groups and what is inserted."""

from __future__ import annotations

import math

import pytest

from simcluster.layout import Mesh, MovementKind
from simcluster.model import Block, Phase
from simcluster.model.operators.activation import Relu
from simcluster.model.operators.pointwise import Bias
from simcluster.work import DType
from tests.support.mindspore_nets import groups, local, net, planned, rule
from tests.support.plan_graphs import Writer, movements_of
from tests.support.planned import plan

FORWARD, BACKWARD = Phase.FORWARD, Phase.BACKWARD


def rows_of(block: Block, mesh: Mesh, value: str) -> list[tuple[int, ...]]:
    """Which slice of each dim every rank holds, by number."""
    layout = block.values[value].layout
    return [tuple(mesh.index(rank, axes) for axes in layout.dims) for rank in range(mesh.num_ranks)]


def test_columns_over_four_ranks_in_two_groups():
    """((2, 1), (1, 4)) on 8: ranks 0-3 hold X0, 4-7 X1; W_k on ranks k and k + 4; no forward communication;
    the gradient of the weight is reduced over {k, k + 4}.
    """
    write, out = net(("matmul", 16, 32))
    block, mesh = planned(write, rule("net.matmul", (2, 1), (1, 4)), outputs=[out])
    wanted = [(rank // 4, 0) for rank in range(8)]
    assert rows_of(block, mesh, block.node("matmul").inputs[0]) == wanted
    assert rows_of(block, mesh, "w1") == [(0, rank % 4) for rank in range(8)]
    assert movements_of(block, FORWARD) == []
    due = block.values[block.gradients["w1"]].layout.partial_axes
    assert groups(mesh, due) == [[0, 4], [1, 5], [2, 6], [3, 7]]


def test_contraction_over_four_ranks_in_two_groups():
    """((2, 4), (4, 1)) on 8: forward AllReduce over {0-3}, {4-7}; rank 0's weight is replicated on [0, 4]."""
    write, out = net(("matmul", 16, 32))
    block, mesh = planned(write, rule("net.matmul", (2, 4), (4, 1)), outputs=[out])
    (moved,) = movements_of(block, FORWARD)
    assert moved.operator.kind is MovementKind.ALL_REDUCE
    assert groups(mesh, moved.operator.axes) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    due = block.values[block.gradients["w1"]].layout.partial_axes
    assert groups(mesh, due)[0] == [0, 4]


@pytest.mark.parametrize("mindspore", [False, True])
def test_the_feed_forward_network_needs_no_redistribution(mindspore):
    """784 -> 64 -> 10, batch 256: (128, 784) x (784, 16) -> (128, 16); (128, 16) x (16, 10) -> (128, 10)."""
    write, out = net(("first", 784, 64), ("second", 64, 10), rows=256)
    block, mesh = planned(
        write,
        rule("net.first", (2, 1), (1, 4)),
        rule("net.second", (2, 4), (4, 1)),
        outputs=[out],
        mindspore=mindspore,
    )
    first, second = block.node("first"), block.node("second")
    assert [local(block, mesh, value) for value in first.inputs] == [(128, 784), (784, 16)]
    assert [local(block, mesh, value) for value in second.inputs] == [(128, 16), (16, 10)]
    assert second.inputs[0] == first.outputs[0]
    assert [node.operator.kind for node in movements_of(block, FORWARD)] == [MovementKind.ALL_REDUCE]
    assert local(block, mesh, "second") == (128, 10)


@pytest.mark.parametrize("mindspore", [False, True])
def test_a_dense_network_on_four_ranks_gathers_once(mindspore):
    """((4, 1), (1, 1)) then ((1, 1), (1, 4)): one AllGather between."""
    write, out = net(("first", 16, 16), ("second", 16, 16))
    block, mesh = planned(
        write,
        rule("net.first", (4, 1), (1, 1)),
        rule("net.second", (1, 1), (1, 4)),
        devices=4,
        outputs=[out],
        mindspore=mindspore,
    )
    (moved,) = movements_of(block, FORWARD)
    assert (moved.operator.kind, groups(mesh, moved.operator.axes)) == (
        MovementKind.ALL_GATHER,
        [[0, 1, 2, 3]],
    )


@pytest.mark.parametrize("side", ["left", "right"])
def test_rows_and_contraction_of_sapps_example(side):
    """MatMul ((4, 2), (1, 2)), its weight transposed: (64, 392) . (512, 392) -> (64, 512) and an AllReduce
    over {0, 1}; then BiasAdd ((4, 1), (1,)) and ReLU ((4, 1)).

    These two are repeated twice. On the right, by neighbours, their rows are those of the product; on the
    left, by the two halves of the ranks, they are others, which have to be redistributed.
    """
    write = Writer("net")
    x = write.feed("in", 256, 784, dtype=DType.FP32)
    y = write.matmul("matmul", x, write.parameter("w", 512, 784), "r k, c k -> r c")
    y = write.add("bias", Bias(("r", "c"), ("c",)), y, write.parameter("b", 512))
    y = write.add("relu", Relu(("r", "c")), y)
    block, mesh = planned(
        write,
        rule("net.matmul", (4, 2), (1, 2)),
        rule("net.bias", (4, 1), (1,), repeated_on=side),
        rule("net.relu", (4, 1), repeated_on=side),
        outputs=[y],
    )
    node = block.node("matmul")
    assert [local(block, mesh, value) for value in node.inputs] == [(64, 392), (512, 392)]
    assert local(block, mesh, node.outputs[0]) == (64, 512)
    found = [
        (each.operator.kind, groups(mesh, each.operator.axes)[0]) for each in movements_of(block, FORWARD)
    ]
    assert (found == [(MovementKind.ALL_REDUCE, [0, 1])]) == (side == "right")
    assert local(block, mesh, "relu") == (64, 512)
    rank = {"left": lambda rank: rank % 4, "right": lambda rank: rank // 2}[side]
    assert rows_of(block, mesh, "relu") == [(rank(each), 0) for each in range(8)]


def test_a_forward_reduce_scatter_leaves_each_rank_rows_of_the_sum():
    """Reference 3.3: k split and forward_reduce_scatter; rows divisible by i * k."""
    write, out = net(("matmul", 16, 32))
    block, mesh = planned(write, rule("net.matmul", (2, 4), (4, 1), scatter=True), outputs=[out])
    (moved,) = movements_of(block, FORWARD)
    assert moved.operator.kind is MovementKind.REDUCE_SCATTER
    assert local(block, mesh, out) == (64 // 8, 32)
    assert rows_of(block, mesh, out) == [(rank, 0) for rank in range(8)]


def test_column_parallel_inputs_need_nothing_but_their_gradient_is_a_sum():
    """Reference 3.3: nothing is inserted at an input that is replicated along j; its gradient comes back as
    a sum, and is reduced once: as many all-reduces backward as forward.
    """
    write = Writer("net")
    x = write.feed("in", 64, 16, dtype=DType.FP32)
    x = write.matmul("first", x, write.parameter("w1", 16, 32), "b in, in h -> b h")
    x = write.add("relu", Relu(("b", "h")), x)
    x = write.matmul("up", x, write.parameter("w2", 32, 64), "b h, h f -> b f")
    x = write.matmul("down", x, write.parameter("w3", 64, 32), "b f, f h -> b h")
    block, _ = planned(
        write,
        rule("net.first", (2, 1), (1, 1), repeated_on="right"),
        rule("net.relu", (2, 1), repeated_on="right"),
        rule("net.up", (2, 1), (1, 4)),
        rule("net.down", (2, 4), (4, 1)),
        outputs=[x],
    )
    assert [node.operator.kind for node in movements_of(block, FORWARD)] == [MovementKind.ALL_REDUCE]
    assert [node.operator.kind for node in movements_of(block, BACKWARD)] == [MovementKind.ALL_REDUCE]


@pytest.mark.parametrize("stages", [1, 2])
def test_pangus_layer_of_heads_and_feed_forward(stages):
    """pangu_alpha.md in 3 dims: two all-reduces of b * s * h / dp forward in a layer, two backward."""
    dp, mp = 2, 4
    layer = "layers.*."
    qkv = [[dp, 1, 1], [1, mp, 1, 1], [1, mp, 1], [1, mp, 1]]
    entries = [
        {"match": f"{layer}attention.qkv", "in": qkv},
        {"match": f"{layer}attention.core", "in": [[dp, 1, mp, 1, 1], [dp, 1, mp, 1], None]},
        {"match": f"{layer}attention.out", "in": [[dp, 1, mp, 1, 1], [mp, 1, 1, 1]]},
        {"match": f"{layer}mlp.up", "in": [[dp, 1, 1], [1, mp]]},
        {"match": f"{layer}mlp.activation", "in": [[dp, 1, mp]]},
        {"match": f"{layer}mlp.down", "in": [[dp, 1, mp], [mp, 1]]},
    ]
    model = {
        "family": "gpt",
        "layers": 4,
        "hidden": 16,
        "heads": 4,
        "vocab": 64,
        "max_positions": 8,
        "bias": False,
    }
    made = plan(
        {"pipeline": stages, "data": dp, "tensor": mp}, model=model, recipe="data", strategies=entries
    )
    block = made.graph.blocks["layer"]
    for phase in (FORWARD, BACKWARD):
        moved = movements_of(block, phase)
        assert [(node.operator.kind, node.operator.axes) for node in moved] == [
            (MovementKind.ALL_REDUCE, ("tensor",))
        ] * 2
        for node in moved:
            assert math.prod(local(block, made.mesh, node.inputs[0])) == 1 * 8 * 16, "b x s x h / dp"
