"""MindSpore's sharding propagation: from the operators that the user configured breadth first to all others.

From every configured operator in the order of the network the search goes over producers and consumers. Each
operator that it reaches for the first time takes, of its candidates, that with the least communication on the
edge over which it was reached, and of these the one that costs least itself. What was decided is never
changed: a later neighbour redistributes. What no search reaches takes its first candidate.

The rules of ``graph_costmodel.cc`` and ``edge_costmodel.cc``. ``parallel.propagate`` of mode semi_auto is
simcluster's own: it starts from all configured operators at once, and improves the result.
"""

from __future__ import annotations

from collections import deque
from typing import ClassVar

import numpy as np

from simcluster.errors import PlanError
from simcluster.plan.auto.cost_graph import CostGraph
from simcluster.plan.auto.operator_graph import TensorEdge
from simcluster.plan.auto.strategy_search import SearchOutcome, SearchProblem, StrategySearch


class ShardingPropagation(StrategySearch):
    """Least redistribution from what is configured; no bound."""

    kind: ClassVar[str] = "sharding_propagation"

    def search(self, problem: SearchProblem) -> SearchOutcome:
        """Strategies that follow from configured operators; PlanError if there are none."""
        costs = problem.costs
        graph = costs.graph
        configured = [
            vertex for vertex in range(len(graph.vertices)) if graph.kind_of(vertex).fixed is not None
        ]
        if not configured:
            raise PlanError(
                "no operator is configured that the others could follow",
                path="parallel.search_mode",
                hint="configure some in parallel.strategies, or use another search_mode",
            )
        chosen = dict.fromkeys(configured, 0)
        for start in configured:
            queue = deque([start])
            while queue:
                vertex = queue.popleft()
                for edge in graph.edges_at[vertex]:
                    other = edge.reader if edge.source == vertex else edge.source
                    if other not in chosen:
                        chosen[other] = _least_communication(costs, edge, vertex, chosen[vertex])
                        queue.append(other)
        differing = sum(
            costs.edge(edge).communication[chosen[edge.source], chosen[edge.reader]] > 0
            for edge in graph.edges
            if edge.source in chosen and edge.reader in chosen
        )
        notes = (
            [f"{differing:,} tensors have other layouts where they are read than where they are made"]
            if differing
            else []
        )
        unreached = len(graph.vertices) - len(chosen)
        if unreached:
            notes.append(f"{unreached:,} operators are connected with no configured one: the first candidate")
        strategies = tuple(
            costs.choices(vertex)[chosen.get(vertex, 0)] for vertex in range(len(graph.vertices))
        )
        return SearchOutcome(strategies, None, tuple(notes), costs.num_candidates)


def _least_communication(costs: CostGraph, edge: TensorEdge, decided: int, choice: int) -> int:
    """The candidate at the other end of an edge with the least communication on it, then least cost."""
    forward = edge.source == decided
    other = edge.reader if forward else edge.source
    table = costs.edge(edge)
    moved = table.communication[choice, :] if forward else table.communication[:, choice]
    copied = table.compute[choice, :] if forward else table.compute[:, choice]
    own = costs.operator(other).objective(costs.model.weights)
    return int(np.lexsort((np.arange(len(own)), copied, own, moved))[0])
