"""MindSpore's symbolic costs: the golden tables of single products, messages, redistribution, memory."""

from __future__ import annotations

import pytest

from simcluster.layout import Layout, Mesh, Strategy
from simcluster.model import TensorType
from simcluster.plan.auto.candidates import SearchMesh
from simcluster.plan.auto.dynamic_programming import DynamicProgramming
from simcluster.plan.auto.movement_sequences import MovementSequences
from simcluster.plan.auto.strategy_cost import CostWeights
from simcluster.plan.auto.symbolic_costs import MessageCost, SymbolicCostModel
from simcluster.work import DType
from tests.support.searches import ASCEND, costs_of, parts, product_chain, searched

SMALL, LARGE = (64, 1024, 512), (4096, 1024, 1024)
TABLE = [
    ((1, 1, 8), (524288, 0, 524288), (17301504, 0, 17301504)),
    ((2, 1, 4), (655360, 524.288, 865075.2), (9437184, 1048.576, 9856614.4)),
    ((4, 1, 2), (1114112, 1048.576, 1533542.4), (6291456, 2097.152, 7130316.8)),
    ((8, 1, 1), (2129919, 2097.151, 2968779.4), (6291455, 4194.303, 7969176.2)),
    ((1, 2, 4), (425984, 33792, 13942784), (13107200, 4195328, 1691238400)),
    ((1, 8, 1), (425984, 132096, 53264384), (19398656, 16778240, 6730694656)),
]


def cost_table(sizes):
    """(i, k, j) -> compute, communication and objective of a single product on 8 devices."""
    rows, inner, columns = sizes
    costs = costs_of(product_chain((inner, columns), rows=rows), 8)
    mesh = costs.search_mesh.mesh
    table = {}
    for place, strategy in enumerate(costs.choices(0)):
        ways = tuple(mesh.product(strategy.axes(dim)) for dim in ("b", "d0", "d1"))
        cost = costs.operator(0).cost(place)
        table[ways] = (cost.compute, cost.communication, ASCEND.objective(cost))
    return table


@pytest.mark.parametrize("column", [0, 1])
def test_a_single_product_costs_what_the_reference_says(column):
    table = cost_table((SMALL, LARGE)[column])
    assert len(table) == 10, "compositions of three halvings"
    for ways, *wanted in TABLE:
        assert table[ways] == pytest.approx(wanted[column], rel=1e-12), ways


@pytest.mark.parametrize(("sizes", "best"), [(SMALL, {"d1": 8}), (LARGE, {"b": 4, "d1": 2})])
def test_the_best_of_a_single_product_is_the_reference_s(sizes, best):
    rows, inner, columns = sizes
    costs = costs_of(product_chain((inner, columns), rows=rows), 8)
    assert parts(costs, searched(DynamicProgramming(), costs), "m0") == best


@pytest.mark.parametrize(
    ("num_bytes", "cost"), [(0, 0), (1, 3072), (2048, 3072), (2049, 3073), (1e6, 1001024)]
)
def test_small_messages_cost_a_constant_and_others_a_bias(num_bytes, cost):
    assert MessageCost()(num_bytes) == cost


def test_what_messages_cost_can_be_said():
    assert MessageCost(10, 5, 7)(10) == 5
    assert MessageCost(10, 5, 7)(11) == 18


def model(**weights):
    mesh = Mesh.of({"a": 2, "b": 4})
    return SymbolicCostModel(
        SearchMesh(mesh, ("a", "b"), free=False),
        MovementSequences(mesh),
        CostWeights(**{"alpha": 1.0, "beta": 400.0, "gamma": 0.001, **weights}),
        MessageCost(0, 0, 0),
    )


@pytest.mark.parametrize(
    ("made", "need", "compute", "sent", "memory"),
    [
        # AllToAll: 2 s there and 2 s back; s = 64 x 64 x 4 / 2.
        ((("a",), ()), ((), ("a",)), 0, 4 * 8192, 0),
        # AllGather over n: n s / 2 and s / 2; the concat on dim 0 is free, and keeps n s.
        (((), ()), (("b",), ()), 16384, 0, 0),
        ((("b",), ()), ((), ()), 4096, 0.5 * 5 * 4096, 4 * 4096),
        # On another dim it costs a split and a concat besides.
        (((), ("b",)), ((), ()), 4096 + 2 * 4 * 4096, 0.5 * 5 * 4096, 0),
    ],
)
def test_a_redistribution_costs_by_the_slice_it_is_given(made, need, compute, sent, memory):
    tensor = TensorType((64, 64), DType.FP32)
    cost = model().redistribution(tensor, Layout(made), Layout(need), trained=True)
    assert (cost.compute, cost.communication, cost.memory) == (compute, sent, memory)


def test_inference_has_no_way_back():
    tensor, made, need = TensorType((64, 64), DType.FP32), Layout((("a",), ())), Layout(((), ("a",)))
    there = model(training=False).redistribution(tensor, made, need, trained=True)
    assert there.communication == 2 * 8192
    assert model().redistribution(tensor, made, need, trained=False).communication == 2 * 8192


def test_memory_is_of_parameters_and_of_results_that_depend_on_them():
    costs = costs_of(product_chain((1024, 512)), 8)
    kind = costs.graph.kind_of(0)
    whole = costs.model.operator(kind, Strategy())
    assert whole.memory == (1024 * 512 + 64 * 512) * 4
    inference = costs_of(
        product_chain((1024, 512)), 8, weights=CostWeights(1.0, 400.0, 0.001, training=False)
    )
    assert inference.model.operator(kind, Strategy()).memory == 1024 * 512 * 4
