"""Costs in seconds by the figures of a cluster."""

from __future__ import annotations

import pytest

from simcluster.layout import Layout, Mesh, Movement, MovementKind, Strategy
from simcluster.model import TensorType
from simcluster.plan.auto.candidates import SearchMesh
from simcluster.plan.auto.cluster_costs import ClusterCostModel
from simcluster.plan.auto.movement_sequences import MovementSequences
from simcluster.plan.auto.operator_graph import OperatorGraph
from simcluster.plan.auto.strategy_cost import CostWeights
from simcluster.work import DType
from tests.support.searches import product_chain

MESH = Mesh.of({"a": 2, "b": 4})


def model(gamma=1.0, training=True, **settings):
    """A byte takes a second to move, a kernel what it reads."""
    return ClusterCostModel(
        SearchMesh(MESH, ("a", "b"), free=False),
        MovementSequences(MESH),
        CostWeights(1.0, 1.0, gamma, training),
        lambda works: float(sum(work.bytes_read for work in works)),
        lambda movement, size: float(size) if movement.is_collective else 0.25 * size,
        **settings,
    )


def kinds():
    return OperatorGraph.of(product_chain((64, 32), (32, 16), rows=128), {}).kinds


def test_kernels_run_forward_and_twice_backward():
    first, _ = kinds()
    read = (128 * 64 + 64 * 32) * 4
    assert model().operator(first, Strategy()).compute == 3 * read
    assert model(training=False).operator(first, Strategy()).compute == read
    halved = model().operator(first, Strategy.of({"b": ("a",)}))
    assert halved.compute == 3 * (64 * 64 + 64 * 32) * 4


def test_sums_of_results_and_gradients_are_all_reduced():
    _, second = kinds()
    # The contracted dim: the result. Columns: the gradient of the input. Rows: that of the weight.
    assert model().operator(second, Strategy.of({"d1": ("b",)})).communication == 128 * 16 * 4
    assert model().operator(second, Strategy.of({"d2": ("b",)})).communication == 128 * 32 * 4
    assert model().operator(second, Strategy.of({"b": ("b",)})).communication == 32 * 16 * 4
    assert model(training=False).operator(second, Strategy.of({"b": ("b",)})).communication == 0


def test_gradients_of_parameters_are_summed_once_a_step_and_hidden_by_gamma():
    _, second = kinds()
    rows = Strategy.of({"b": ("b",)})
    assert model(terms=8).operator(second, rows).communication == 32 * 16 * 4 / 8
    assert model(gamma=0.5).operator(second, rows).communication == 32 * 16 * 4 / 2


def test_memory_holds_states_of_parameters_and_results_of_micro_batches_in_flight():
    _, second = kinds()
    assert model(in_flight=3).operator(second, Strategy()).memory == 16 * 32 * 16 + 3 * 128 * 16 * 4
    assert model(training=False).operator(second, Strategy()).memory == 4 * 32 * 16


def test_redistributions_go_there_and_back():
    tensor = TensorType((64, 64), DType.FP32)
    made, need = Layout((("b",), ())), Layout(((), ()))
    whole = 64 * 64 * 4
    assert model().redistribution(tensor, made, need, trained=False).communication == whole
    there_and_back = model().redistribution(tensor, made, need, trained=True)
    assert there_and_back.communication == whole + 0.25 * whole / 4


@pytest.mark.parametrize("unit", ["a", "b"])
def test_a_cut_costs_an_all_reduce_over_its_links(unit):
    prices = {"a": 10.0, "b": 1.0}
    slow_outside = model()
    object.__setattr__(slow_outside, "movement", lambda movement, size: prices[movement.axes[0]] * size)
    assert slow_outside.collective(unit, 100) == 100 * prices[unit]
    assert Movement(MovementKind.ALL_REDUCE, (unit,)).is_collective
