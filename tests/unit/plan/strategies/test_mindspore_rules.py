"""The reference's rules of communication by operator, its context's defaults, and its sampler's seeds."""

from __future__ import annotations

import numpy as np
import pytest

from simcluster import shard_rows
from simcluster.layout import MovementKind
from simcluster.model import Phase, Role
from simcluster.model.operators.activation import Relu
from simcluster.model.operators.embedding import Embedding
from simcluster.model.operators.min_max import Extreme
from simcluster.model.operators.reduction import SumTo
from simcluster.model.operators.reshape import Reshape
from simcluster.plan.spec import ParallelSpec
from simcluster.plan.spec.redistribution_spec import RedistributionSpec
from simcluster.work import DType
from tests.support.mindspore_nets import groups, local, net, planned, rule
from tests.support.plan_graphs import Writer, movements_of, told
from tests.support.planned import plan

FORWARD, BACKWARD = Phase.FORWARD, Phase.BACKWARD
FOUR = [[0, 1, 2, 3], [4, 5, 6, 7]]


# -- operators (reference 3.3) ---------------------------------------------------------------------------


def looked_up(*strategy):
    write = Writer("net")
    ids = write.feed("ids", 8, 4)
    table = write.parameter("table", 16, 8)
    rows = write.add("rows", Embedding(), ids, table)
    return planned(write, rule("net.rows", *strategy), outputs=[rows])


def test_a_gather_of_split_rows_is_masked_and_all_reduced():
    block, mesh = looked_up((2, 1), (4, 1))
    (moved,) = movements_of(block, FORWARD)
    assert (moved.operator.kind, moved.operator.reduction) == (MovementKind.ALL_REDUCE, "sum")
    assert groups(mesh, moved.operator.axes) == FOUR
    assert local(block, mesh, "table") == (4, 8)


def test_a_gather_of_split_columns_needs_nothing():
    block, mesh = looked_up((2, 1), (1, 4))
    assert movements_of(block, FORWARD) == []
    assert local(block, mesh, "rows") == (4, 4, 2)


@pytest.mark.parametrize("how", ["sum", "max", "min"])
def test_a_reduction_over_a_split_dim_is_all_reduced_its_way(how):
    write, x = net(("matmul", 16, 32))
    labels, kept = ("b", "d1"), ("b",)
    operator = SumTo(labels, kept, 1.0, (64, 32)) if how == "sum" else Extreme(labels, kept, how)
    x = write.add("reduced", operator, x)
    block, mesh = planned(write, rule("net.matmul", (2, 1), (1, 4)), rule("net.reduced", (2, 4)), outputs=[x])
    (moved,) = movements_of(block, FORWARD)
    assert (moved.operator.kind, moved.operator.reduction) == (MovementKind.ALL_REDUCE, how)
    assert groups(mesh, moved.operator.axes) == FOUR


def test_what_is_gathered_forward_is_scattered_as_a_sum_backward():
    """AllGather -> ReduceScatter(SUM), as the registered backward of each inserted collective has it."""
    write, x = net(("first", 16, 16))
    x = write.add("relu", Relu(("b", "d1")), x)
    x = write.matmul("second", x, write.parameter("w2", 16, 32), "b d1, d1 o -> b o")
    block, _ = planned(
        write,
        rule("net.first", (8, 1), (1, 1)),
        rule("net.relu", (8, 1)),
        rule("net.second", (1, 1), (1, 8)),
        outputs=[x],
    )
    assert [each.split()[0] for each in told(block, FORWARD)] == ["all_gather"]
    # Behind the backward's own gather of what was kept in its producer's layout.
    assert [each.split()[0] for each in told(block, BACKWARD) if "gather" not in each] == ["reduce_scatter"]


def test_a_scattered_sum_is_gathered_backward():
    """ReduceScatter -> AllGather."""
    write, out = net(("matmul", 16, 32))
    block, _ = planned(write, rule("net.matmul", (1, 8), (8, 1), scatter=True), outputs=[out])
    assert [each.split()[0] for each in told(block, FORWARD)] == ["reduce_scatter"]
    assert "all_gather" in [each.split()[0] for each in told(block, BACKWARD)]


def test_parameters_are_reduced_over_the_ranks_that_hold_the_same_slice():
    """The mirror: all ranks with equal coordinates on the dims that the parameter is split on."""
    for matrix, wanted in {
        ((8, 1), (1, 1)): [list(range(8))],
        ((4, 1), (1, 2)): [[0, 2, 4, 6], [1, 3, 5, 7]],
        ((2, 2), (2, 2)): [[0, 4], [1, 5], [2, 6], [3, 7]],
        ((1, 4), (4, 2)): [],
    }.items():
        write, out = net(("matmul", 16, 32))
        block, mesh = planned(write, rule("net.matmul", *matrix), outputs=[out])
        due = block.values[block.gradients["w1"]].layout.partial_axes
        assert (groups(mesh, due) if due else []) == wanted


def test_sapps_flatten_is_a_view_and_its_rows_are_exchanged_for_columns():
    """Flatten (8, 1, 1, 1), then MatMul ((4, 2), (1, 2)), its weight transposed (reference 3.5)."""
    write = Writer("net")
    pictures = write.feed("in", 256, 1, 28, 28, dtype=DType.FP32)
    flatten = Reshape.of(("n", "c", "h", "w"), (256, 1, 28, 28), (256, 784))
    flat = write.add("flatten", flatten, pictures)
    rows, columns = flatten.result
    spec = f"{rows} {columns}, o {columns} -> {rows} o"
    out = write.matmul("matmul", flat, write.parameter("w", 512, 784), spec)
    block, mesh = planned(
        write,
        rule("net.flatten", (8, 1, 1, 1)),
        rule("net.matmul", (4, 2), (1, 2)),
        outputs=[out],
    )
    assert local(block, mesh, "flatten") == (32, 784)
    first, last = movements_of(block, FORWARD)
    # Eight slices of rows become four of rows and two of columns: halves change hands in pairs.
    assert first.operator.kind is MovementKind.ALL_TO_ALL
    assert groups(mesh, first.operator.axes)[0] == [0, 1]
    assert (last.operator.kind, groups(mesh, last.operator.axes)[0]) == (MovementKind.ALL_REDUCE, [0, 1])
    assert local(block, mesh, block.node("matmul").inputs[0]) == (64, 392)


# -- the context's defaults (reference 2.2) --------------------------------------------------------------


def test_defaults_that_are_the_references():
    assert RedistributionSpec(kind="mindspore").exchanges is False, "enable_alltoall"
    assert ParallelSpec(mesh={}).parameter_broadcast is False


def test_a_distributed_gradient_reducer_divides_by_its_degree():
    """AllReduce(SUM), then x 1 / degree if mean; degree is that of all ranks unless given."""

    def factor(ways=8, **written):
        return 1 / (ParallelSpec(mesh={}, **written).tokens_counted(1, ways))

    # A rank's gradient is that of the mean of its own samples: ways / all of what they add up to.
    assert factor(gradients_mean=False) == 8
    assert factor(gradients_mean=True) == 1
    assert factor(gradients_mean=True, gradients_degree=2) == 4
    assert factor(gradients_mean=True, gradients_degree=16) == 0.5


@pytest.mark.parametrize("mesh", [{"data": 4}, {"data": 2, "tensor": 2}])
def test_gradients_are_synchronised_in_fp32_though_operators_compute_in_bf16(mesh):
    """``gradient_fp32_sync``, true by default."""
    made = plan(mesh, training={"precision": "bf16"})
    moved = [
        node
        for _, node in made.graph.nodes()
        if node.phase is Phase.END and getattr(node.operator, "kind", "") == MovementKind.ALL_REDUCE
    ]
    assert moved
    found = {
        block.values[value].type.dtype
        for block in made.graph.blocks.values()
        for value in block.gradients.values()
        if block.values[value].role is Role.ACCUMULATOR
    }
    assert found == {DType.FP32}


def test_a_loss_that_ranks_compute_alike_counts_once():
    """``loss_repeated_mean``, true by default; values are those of one device."""
    write, x = net(("matmul", 16, 32))
    block, mesh = planned(write, rule("net.matmul", (2, 1), (1, 1)), outputs=[x])
    due = block.values[block.gradients["w1"]].layout.partial_axes
    assert mesh.product(due) == 2, "over the two halves of the rows, not over the four that repeat each"


# -- the sampler (reference 2.3) -------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 7])
def test_the_seed_of_a_shuffle_grows_with_every_epoch(seed):
    for epoch in range(3):
        mine = shard_rows(30, 4, 1, shuffle=seed, epoch=epoch)
        assert mine.tolist() == shard_rows(30, 4, 1, shuffle=seed + epoch).tolist()


def test_all_shards_cut_one_permutation_with_wrap_around():
    """perm[(D i + d) mod R]."""
    order = shard_rows(10, 1, 0, shuffle=5)
    for shard in range(4):
        wanted = [int(order[(4 * i + shard) % 10]) for i in range(3)]
        assert shard_rows(10, 4, shard, shuffle=5).tolist() == wanted
    assert np.array_equal(np.sort(order), np.arange(10))
