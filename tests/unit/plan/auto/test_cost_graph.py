"""Tables of costs, shared by what is alike."""

from __future__ import annotations

import numpy as np
import pytest

from simcluster.model.operators.activation import Relu
from simcluster.plan.auto.dynamic_programming import DynamicProgramming
from simcluster.plan.auto.strategy_cost import IMPOSSIBLE
from simcluster.work import DType
from tests.support.plan_graphs import GPT, Writer, chain
from tests.support.searches import costs_of, parts, product_chain, searched


def test_equal_layers_share_their_tables():
    costs = costs_of(GPT.graph(4, 4, DType.FP32, 1), 4)
    place = {vertex.name: index for index, vertex in enumerate(costs.graph.vertices)}
    assert costs.operator(place["layers.0.mlp.up"]) is costs.operator(place["layers.1.mlp.up"])
    tables = {
        costs.graph.vertices[edge.source].name: costs.edge(edge)
        for edge in costs.graph.edges
        if costs.graph.vertices[edge.reader].name.endswith("mlp.down")
    }
    first, second = (tables[f"layers.{layer}.mlp.activation"] for layer in (0, 1))
    assert first is second


def test_the_total_of_a_choice_is_the_sum_of_its_tables():
    costs = costs_of(product_chain((64, 64), (64, 32)), 8)
    outcome = searched(DynamicProgramming(), costs)
    chosen = [costs.choices(place).index(strategy) for place, strategy in enumerate(outcome.strategies)]
    (edge,) = costs.graph.edges
    parts_of = [costs.operator(place).cost(choice) for place, choice in enumerate(chosen)]
    parts_of.append(costs.edge(edge).cost(*chosen))
    total = costs.total(outcome.strategies)
    assert total.compute == sum(part.compute for part in parts_of)
    assert total.memory == sum(part.memory for part in parts_of) == costs.stage_memory(outcome.strategies, 0)
    assert costs.model.weights.objective(total) == pytest.approx(outcome.bound)


def with_relu(*, follow):
    write = Writer("net")
    x = write.feed("in", 8, 4096, dtype=DType.FP32)
    y = write.matmul("dense", x, write.parameter("w", 4096, 64), "b in, in out -> b out")
    y = write.add("relu", Relu(("b", "out")), y)
    return costs_of(chain(write.block(y)), 8, follow=follow)


def test_element_wise_operators_keep_the_layout_before_them_if_they_follow():
    """elementwise_op_strategy_follow: only the layout that is there already is possible."""
    free, following = with_relu(follow=False), with_relu(follow=True)
    (edge,) = free.graph.edges
    assert np.isfinite(free.edge(edge).communication).all()
    possible = np.isfinite(following.edge(edge).communication)
    layouts = [strategy.layout(("b", "out")) for strategy in following.choices(0)]
    reading = [strategy.layout(("b", "out")) for strategy in following.choices(1)]
    for row, made in enumerate(layouts):
        same = [need == made for need in reading]
        assert possible[row].tolist() == (same if any(same) else [True] * len(reading))
    assert (following.edge(edge).communication == IMPOSSIBLE).any()


def test_the_number_of_candidates_counts_each_kind_once():
    costs = costs_of(GPT.graph(4, 4, DType.FP32, 1), 4)
    assert costs.num_candidates == sum(map(len, costs.strategies))
    assert parts(costs, searched(DynamicProgramming(), costs), "logits")
