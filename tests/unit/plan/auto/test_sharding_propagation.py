"""MindSpore's sharding propagation: breadth first from what is configured, least communication first."""

from __future__ import annotations

import pytest

from simcluster.errors import PlanError
from simcluster.plan.auto.sharding_propagation import ShardingPropagation
from tests.support.mindspore_nets import rule
from tests.support.plan_graphs import Writer, chain
from tests.support.searches import costs_of, parts, product_chain, searched

SEARCH = ShardingPropagation()


def test_the_feed_forward_network_of_the_reference():
    """((2, 1), (1, 4)) makes the second product ((2, 4), (4, 1)), with no redistribution between them."""
    costs = costs_of(product_chain((784, 64), (64, 12), rows=256), 8, rule("net.m0", (2, 1), (1, 4)))
    outcome = searched(SEARCH, costs)
    assert parts(costs, outcome, "m0") == {"b": 2, "d1": 4}
    assert parts(costs, outcome, "m1") == {"b": 2, "d1": 4}
    alone = [
        costs.model.operator(kind, strategy).communication
        for kind, strategy in zip(costs.graph.kinds, outcome.strategies, strict=True)
    ]
    assert costs.total(outcome.strategies).communication == pytest.approx(sum(alone))
    assert not outcome.notes


def test_it_goes_backwards_too():
    costs = costs_of(product_chain((64, 64), (64, 64), (64, 64)), 8, rule("net.m2", (2, 4), (4, 1)))
    outcome = searched(SEARCH, costs)
    for name, columns in (("m1", "d2"), ("m0", "d1")):
        split = parts(costs, outcome, name)
        assert split["b"] == 2
        assert name == "m0" or split[columns] == 4


def test_what_is_configured_or_reached_is_never_changed():
    """The first one determines all up to the other, where a redistribution is left."""
    graph = product_chain((64, 64), (64, 64), (64, 64), (64, 64))
    fixed = rule("net.m0", (8, 1), (1, 1)), rule("net.m3", (1, 8), (8, 1))
    costs = costs_of(graph, 8, *fixed)
    outcome = searched(SEARCH, costs)
    assert parts(costs, outcome, "m3") == {"d3": 8}
    assert [parts(costs, outcome, name) for name in ("m0", "m1", "m2")] == [{"b": 8}] * 3
    assert outcome.notes == ("1 tensors have other layouts where they are read than where they are made",)


def test_without_a_configured_operator_there_is_nothing_to_follow():
    with pytest.raises(PlanError, match="no operator is configured") as caught:
        searched(SEARCH, costs_of(product_chain((64, 64)), 8))
    assert caught.value.problems[0].path == "parallel.search_mode"


def test_what_no_search_reaches_takes_its_first_candidate():
    write = Writer("net")
    names = []
    for number in range(2):
        x = write.feed(f"in{number}", 64, 64)
        names.append(write.matmul(f"m{number}", x, write.parameter(f"w{number}", 64, 64), "b i, i j -> b j"))
    costs = costs_of(chain(write.block(*names)), 8, rule("net.m0", (1, 1), (1, 8)))
    outcome = searched(SEARCH, costs)
    assert outcome.strategies[1] == costs.choices(1)[0]
    assert "1 operators are connected with no configured one" in outcome.notes[-1]
