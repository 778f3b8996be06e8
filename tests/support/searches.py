"""Small networks of products with what a search needs, and random problems for its solvers."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from simcluster.layout import Mesh, Strategy
from simcluster.model import Graph
from simcluster.plan.auto.candidates import CandidateRules, SearchMesh, unit_sub_axes
from simcluster.plan.auto.cost_graph import CostGraph
from simcluster.plan.auto.cost_table import CostTable
from simcluster.plan.auto.movement_sequences import MovementSequences
from simcluster.plan.auto.operator_graph import OperatorGraph
from simcluster.plan.auto.stage_problem import StageProblem, WeightedSolver
from simcluster.plan.auto.strategy_cost import CostWeights
from simcluster.plan.auto.strategy_search import SearchOutcome, SearchProblem, StrategySearch
from simcluster.plan.auto.symbolic_costs import SymbolicCostModel
from simcluster.plan.rules.strategy_rule import AxisRoles, StrategyRule
from simcluster.plan.strategies.assignment import DEFAULT, assign_strategies
from simcluster.plan.strategies.mesh_subaxes import split_mesh_axes
from tests.support.mindspore_nets import net
from tests.support.plan_graphs import chain

ASCEND = CostWeights(1.0, 400.0, 0.001)
PLENTY = 1e18


def free_mesh(devices: int) -> SearchMesh:
    """One axis of so many ranks, cut into its prime factors."""
    mesh = Mesh.of({"devices": devices})
    graph = product_chain((4, 4))
    units = [("test", "", unit) for unit in unit_sub_axes(mesh, "")]
    cut, _ = split_mesh_axes(graph, [], mesh, AxisRoles({}), "", units)
    return SearchMesh.of(cut, "")


def product_chain(*shapes: tuple[int, int], rows: int = 64) -> Graph:
    """Products one behind the other: ``m0``, ``m1`` and so on, their weights of these shapes."""
    write, out = net(*((f"m{place}", *shape) for place, shape in enumerate(shapes)), rows=rows)
    return chain(write.block(out))


def costs_of(
    graph: Graph,
    devices: int,
    *rules: StrategyRule,
    weights: CostWeights = ASCEND,
    candidates: CandidateRules | None = None,
    follow: bool = False,
    mesh: Mesh | None = None,
) -> CostGraph:
    """The cost graph under MindSpore's model; ``rules`` fix some operators."""
    whole = mesh or Mesh.of({"devices": devices})
    roles = AxisRoles({})
    cut, _ = split_mesh_axes(graph, rules, whole, roles, "")
    units = [("test", "", unit) for unit in unit_sub_axes(cut, "")]
    cut, cut_roles = split_mesh_axes(graph, rules, whole, roles, "", units)
    strategies = assign_strategies(graph, rules, cut, cut_roles)
    fixed: dict[str, Mapping[str, Strategy]] = {
        instance: {
            name: strategies.of(instance)[name] for name, source in sources.items() if source != DEFAULT
        }
        for instance, sources in strategies.sources.items()
    }
    search_mesh = SearchMesh.of(cut, "")
    model = SymbolicCostModel(search_mesh, MovementSequences(cut), weights)
    operators = OperatorGraph.of(graph, fixed)
    return CostGraph(operators, search_mesh, candidates or CandidateRules(), model, follow)


def searched(search: StrategySearch, costs: CostGraph, capacity: float = PLENTY) -> SearchOutcome:
    """What a search finds within so many bytes."""
    return search.search(SearchProblem(costs, capacity))


def parts(costs: CostGraph, outcome: SearchOutcome, name: str) -> dict[str, int]:
    """Into how many parts a search splits the dims of an operator."""
    (place,) = (
        index for index, vertex in enumerate(costs.graph.vertices) if vertex.name.endswith(f".{name}")
    )
    mesh = costs.search_mesh.mesh
    return {dim: mesh.product(axes) for dim, axes in outcome.strategies[place].splits}


def random_problem(
    rng: np.random.Generator, num_operators: int, most: int, edges: Sequence[tuple[int, int]]
) -> tuple[StageProblem, WeightedSolver]:
    """Operators with up to ``most`` strategies and random costs, and its solver."""
    sizes = {vertex: int(rng.integers(1, most + 1)) for vertex in range(num_operators)}
    tables = [((vertex,), _random_table(rng, (sizes[vertex],))) for vertex in sizes]
    tables += [(pair, _random_table(rng, (sizes[pair[0]], sizes[pair[1]]))) for pair in edges]
    problem = StageProblem(sizes, tuple(tables))
    return problem, WeightedSolver({id(table): table.objective(ASCEND) for _, table in tables})


def _random_table(rng: np.random.Generator, shape: tuple[int, ...]) -> CostTable:
    compute, sent, memory = (rng.integers(1, 1000, shape).astype(float) for _ in range(3))
    return CostTable(compute, sent / 400, memory)


def reducible_edges(rng: np.random.Generator, num_operators: int) -> list[tuple[int, int]]:
    """Edges of a random graph whose operators have at most two neighbours when it is their turn, in some
    order: each operator is joined to one before it, or to both ends of an edge before it.
    """
    edges: list[tuple[int, int]] = []
    for vertex in range(1, num_operators):
        if edges and rng.random() < 0.5:
            ends = edges[int(rng.integers(len(edges)))]
            edges += [(end, vertex) for end in ends]
        else:
            edges.append((int(rng.integers(vertex)), vertex))
    return edges


def every_choice(problem: StageProblem, solver: WeightedSolver) -> list[tuple[float, float]]:
    """(objective, memory) of every choice of strategies."""
    orders = itertools.product(*(range(size) for size in problem.sizes.values()))
    choices = [dict(zip(problem.sizes, places, strict=True)) for places in orders]
    return [(solver.cost_of(problem, choice), problem.memory_of(choice)) for choice in choices]
