"""MindSpore's double recursive search: which dim a cut takes, in which order, and who follows."""

from __future__ import annotations

import pytest

from simcluster.layout import Mesh
from simcluster.model.operators.activation import Relu
from simcluster.model.operators.pointwise import Bias
from simcluster.plan.auto.recursive_programming import RecursiveProgramming
from simcluster.work import DType
from tests.support.mindspore_nets import rule
from tests.support.plan_graphs import Writer, chain
from tests.support.searches import costs_of, parts, product_chain, searched

SEARCH = RecursiveProgramming()


@pytest.mark.parametrize(
    ("rows", "inner", "columns", "cut"),
    [
        (1024, 64, 64, {"b": 2}),
        (64, 64, 1024, {"d1": 2}),
        (64, 1024, 64, {"d0": 2}),
    ],
)
def test_a_cut_takes_the_dim_that_the_smallest_tensor_lacks(rows, inner, columns, cut):
    """Cutting i costs j k / 2, j costs i k / 2, k costs i j / 2."""
    costs = costs_of(product_chain((inner, columns), rows=rows), 2)
    assert parts(costs, searched(SEARCH, costs), "m0") == cut


def test_equal_costs_are_decided_by_the_order_rows_columns_contracted():
    costs = costs_of(product_chain((64, 64), rows=64), 2)
    assert parts(costs, searched(SEARCH, costs), "m0") == {"b": 2}
    costs = costs_of(product_chain((64, 64), rows=63), 2)
    assert parts(costs, searched(SEARCH, costs), "m0") == {"d1": 2}


def test_every_cut_counts_sizes_after_those_before():
    """64 x 256 x 64: cutting k leaves 64 x 128 x 64, then 64 x 64 x 64, where rows are first of equals."""
    wanted = {2: {"d0": 2}, 4: {"d0": 4}, 8: {"d0": 4, "b": 2}}
    for devices, split in wanted.items():
        costs = costs_of(product_chain((256, 64), rows=64), devices)
        assert parts(costs, searched(SEARCH, costs), "m0") == split


def test_odd_dims_are_not_cut():
    costs = costs_of(product_chain((7, 12), rows=5), 8)
    assert parts(costs, searched(SEARCH, costs), "m0") == {"d1": 4}


def test_a_neighbour_that_was_cut_elsewhere_costs_a_quarter_of_the_tensor():
    """448 x 64 x 1024, then 448 x 1024 x 512. The second weighs most (448 x 512 / 2, its contracted dim) and
    is decided first. The first then takes its columns (448 x 64 / 2), which the second is cut by. With the
    second fixed by rows, columns cost 448 x 1024 / 4 more, which makes them dearer than rows (64 x 1024 / 2).
    """
    graph = product_chain((64, 1024), (1024, 512), rows=448)
    costs = costs_of(graph, 2)
    outcome = searched(SEARCH, costs)
    assert parts(costs, outcome, "m1") == {"d1": 2}
    assert parts(costs, outcome, "m0") == {"d1": 2}
    costs = costs_of(graph, 2, rule("net.m1", (2, 1), (1, 1)))
    assert parts(costs, searched(SEARCH, costs), "m0") == {"b": 2}


def with_bias_and_relu(*rules, rows=256, devices=8):
    """Flatten(rows, 784) x (784, 512), bias and ReLU, as in the log of MindSpore's recursive search."""
    write = Writer("net")
    x = write.feed("in", rows, 784, dtype=DType.FP32)
    y = write.matmul("dense", x, write.parameter("w", 512, 784), "b in, out in -> b out")
    y = write.add("bias", Bias(("b", "out"), ("out",)), y, write.parameter("bias.weight", 512))
    y = write.add("relu", Relu(("b", "out")), y)
    return costs_of(chain(write.block(y)), devices, *rules)


def test_operators_that_do_little_follow_their_producer():
    """Reference 3.5: MatMul ((4, 2), (1, 2)), then BiasAdd ((4, 1), (1)) and ReLU ((4, 1)): both ranks that
    share a sum have it, and go on with it.
    """
    costs = with_bias_and_relu(rule("net.dense", (4, 2), (1, 2)))
    outcome = searched(SEARCH, costs)
    assert parts(costs, outcome, "dense") == {"b": 4, "in": 2}
    assert parts(costs, outcome, "bias") == parts(costs, outcome, "relu") == {"b": 4}


@pytest.mark.parametrize(
    ("rows", "split"),
    [
        (256, {"in": 4, "out": 2}),
        (1016, {"b": 2, "in": 2, "out": 2}),
        (1024, {"b": 4, "in": 2}),
        (2048, {"b": 4, "in": 2}),
        (784 * 4 - 8, {"b": 4, "in": 2}),
        (784 * 4, {"b": 8}),
    ],
)
def test_the_product_of_the_log_is_split_as_there_from_1024_rows_on(rows, split):
    """The log of reference 3.5 has ((4, 2), (1, 2)) for 256 x 784 x 512, by the slices that it prints. By the
    costs of reference 4.5 that is not the least there: cutting rows costs 512 x 784 / 2 = 200,704, columns
    256 x 784 / 2 = 100,352, what is contracted 256 x 512 / 2 = 65,536; so the cuts are contracted, columns,
    contracted. It is the least from 1,024 rows on, where the second cut of rows (512 x 392 / 2 = 100,352)
    costs no more than the first of columns (1,024 / 2 x 392 / 2), up to 3,136, where the third cut of rows
    is no dearer than the first of what is contracted. 2,048 rows, 256 for each of the 8 devices, are between:
    there the log follows, with its bias and its ReLU.
    """
    costs = with_bias_and_relu(rows=rows)
    outcome = searched(SEARCH, costs)
    assert parts(costs, outcome, "dense") == split
    followed = {dim: count for dim, count in split.items() if dim != "in"}
    assert parts(costs, outcome, "bias") == parts(costs, outcome, "relu") == followed


def test_the_outermost_cut_is_over_the_slowest_links():
    """Axes are cut from the outermost: the first cut of 64 x 256 x 64 takes k, the last rows."""
    mesh = Mesh.of({"hosts": 2, "pairs": 2, "devices": 2})
    costs = costs_of(product_chain((256, 64), rows=64), 8, mesh=mesh)
    strategy = searched(SEARCH, costs).strategies[0]
    assert strategy.axes("d0") == ("hosts", "pairs")
    assert strategy.axes("b") == ("devices",)


@pytest.mark.parametrize(("devices", "extended"), [(1024, False), (4096, True)])
def test_more_than_1024_devices_are_said_to_be_an_extension(devices, extended):
    costs = costs_of(product_chain((4096, 4096), rows=4096), devices)
    outcome = searched(SEARCH, costs)
    assert any("extension" in note for note in outcome.notes) is extended
    split = parts(costs, outcome, "m0")
    assert split["b"] * split["d0"] * split["d1"] == devices
