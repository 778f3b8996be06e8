"""Strategies that were found, as rules that give them again."""

from __future__ import annotations

import numpy as np
import pytest

from simcluster.layout import Mesh, Strategy
from simcluster.plan.auto.candidates import CandidateRules, candidate_strategies
from simcluster.plan.auto.dynamic_programming import DynamicProgramming
from simcluster.plan.auto.searched_strategies import searched_rules
from simcluster.plan.rules.strategy_rule import AxisRoles
from simcluster.plan.strategies.assignment import assign_strategies
from simcluster.plan.strategies.mesh_subaxes import split_mesh_axes
from simcluster.work import DType
from tests.support.plan_graphs import GPT
from tests.support.searches import costs_of, product_chain, searched


def groups(mesh: Mesh, strategy: Strategy) -> dict[str, list[list[int]]]:
    """Dim -> the ranks that it separates, whatever the axes are called."""
    return {dim: sorted(mesh.groups(axes).tolist()) for dim, axes in strategy.splits}


def planned_again(graph, costs, strategies, whole):
    """The mesh and strategies that the rules give from scratch."""
    rules = searched_rules(costs.graph, strategies, costs.search_mesh, "", "search")
    mesh, roles = split_mesh_axes(graph, rules, whole, AxisRoles({}), "")
    return mesh, assign_strategies(graph, rules, mesh, roles), rules


@pytest.mark.parametrize("mesh", [{"devices": 8}, {"devices": 12}, {"outer": 2, "inner": 4}])
@pytest.mark.parametrize("seed", range(4))
def test_rules_give_the_same_groups_of_ranks(mesh, seed):
    rng = np.random.default_rng(seed)
    graph = product_chain((24, 48), (48, 24), (24, 12), rows=24)
    whole = Mesh.of(mesh)
    costs = costs_of(graph, whole.num_ranks, mesh=whole, candidates=CandidateRules(fully_use_devices=False))
    chosen = []
    for kind in costs.graph.kinds:
        every = candidate_strategies(kind, costs.search_mesh, costs.rules)
        chosen.append(every[int(rng.integers(len(every)))])
    made, strategies, _ = planned_again(graph, costs, chosen, whole)
    for number, strategy in enumerate(chosen):
        again = strategies.of("net")[f"m{number}"]
        assert groups(made, again) == groups(costs.search_mesh.mesh, strategy)


def test_equal_layers_share_a_rule():
    graph = GPT.graph(8, 4, DType.FP32, 1)
    whole = Mesh.of({"data": 8})
    costs = costs_of(graph, 8, mesh=whole)
    _, _, rules = planned_again(graph, costs, searched(DynamicProgramming(), costs).strategies, whole)
    assert "layers.*.mlp.up" in [rule.match for rule in rules]
    assert len({rule.match for rule in rules}) == len(rules)


def test_the_mesh_is_cut_no_finer_than_strategies_need():
    graph = product_chain((64, 64), rows=64)
    costs = costs_of(graph, 16)
    outer, *inner = costs.search_mesh.units
    strategy = Strategy.of({"b": (outer,), "d1": tuple(inner)})
    mesh, _, _ = planned_again(graph, costs, [strategy], Mesh.of({"devices": 16}))
    assert [size for _, size in mesh.axes] == [2, 8]
