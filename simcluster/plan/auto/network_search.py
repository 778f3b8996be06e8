"""From a network on its stages to the rules that a search found, and a report of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from simcluster import units
from simcluster.cluster import Cluster
from simcluster.collectives import Selection
from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Mesh, Strategy
from simcluster.model import Graph
from simcluster.plan.auto.candidates import CandidateRules, SearchMesh
from simcluster.plan.auto.cluster_costs import ClusterCostModel
from simcluster.plan.auto.cost_graph import CostGraph
from simcluster.plan.auto.cost_model import CostModel
from simcluster.plan.auto.dynamic_programming import DynamicProgramming
from simcluster.plan.auto.movement_sequences import MovementSequences
from simcluster.plan.auto.operator_graph import OperatorGraph
from simcluster.plan.auto.recursive_programming import RecursiveProgramming
from simcluster.plan.auto.searched_strategies import searched_rules
from simcluster.plan.auto.sharding_propagation import ShardingPropagation
from simcluster.plan.auto.strategy_cost import CostWeights
from simcluster.plan.auto.strategy_search import SearchProblem, StrategySearch
from simcluster.plan.auto.symbolic_costs import MessageCost, SymbolicCostModel
from simcluster.plan.redistribution import kernel_cost, movement_cost
from simcluster.plan.search_report import SearchReport
from simcluster.plan.spec import AutoSpec

_LIMITED = ("device_memory_capacity", "enable_algo_approxi", "algo_approxi_epsilon")
_LISTED = ("fully_use_devices", "elementwise_op_strategy_follow")
_WITHOUT_EFFECT: Mapping[str, tuple[str, ...]] = {
    RecursiveProgramming.kind: (*_LIMITED, *_LISTED),
    ShardingPropagation.kind: _LIMITED,
}
"""Options that a search does not look at: those of a memory limit, and of lists of candidates."""


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """The options of a search of strategies."""

    search_mode: str
    """Which search."""
    auto: AutoSpec
    """Its options."""
    training: bool
    """Whether the scenario trains."""
    micro_batches: int
    """Micro-batches of a step."""
    stages: int
    """Pipeline stages."""


@cache
def strategy_searches() -> Mapping[str, StrategySearch]:
    """The searches by the names that ``parallel.search_mode`` has for them."""
    every = (DynamicProgramming(), RecursiveProgramming(), ShardingPropagation())
    return {search.kind: search for search in every}


def find_strategies(
    graph: Graph,
    fixed: Mapping[str, Mapping[str, Strategy]],
    mesh: Mesh,
    stage_axis: str,
    cluster: Cluster,
    algorithms: Selection,
    settings: SearchSettings,
    context: Sequence[str] = (),
) -> SearchReport:
    """Strategies of all operators of a placed graph that are not ``fixed``: instance -> operator -> strategy.

    ``mesh`` is cut for the units of the search; axes of ``context`` split sequences. PlanError where there is
    no answer.
    """
    auto = settings.auto
    search_mesh = SearchMesh.of(mesh, stage_axis, context)
    operators = OperatorGraph.of(graph, fixed)
    model = _cost_model(search_mesh, cluster, algorithms, settings)
    rules = CandidateRules(
        auto.fully_use_devices, auto.tensor_slice_align_size if auto.tensor_slice_align_enable else 1
    )
    costs = CostGraph(operators, search_mesh, rules, model, auto.elementwise_op_strategy_follow)
    smallest = min(host.device.memory for host in cluster.kinds)
    problem = SearchProblem(
        costs,
        auto.capacity(smallest),
        auto.algo_approxi_epsilon,
        auto.enable_algo_approxi,
        f"a device has {units.size(smallest)}",
    )
    outcome = strategy_searches()[settings.search_mode].search(problem)
    cost = costs.total(outcome.strategies)
    fixed_vertices = sum(operators.kinds[vertex.kind].fixed is not None for vertex in operators.vertices)
    source = f"{settings.search_mode} search"
    rules_found = searched_rules(operators, outcome.strategies, search_mesh, stage_axis, source)
    return SearchReport(
        search_mode=settings.search_mode,
        cost_model=auto.cost_model,
        unit=model.unit,
        cost=model.weights.objective(cost),
        compute=cost.compute,
        communication=cost.communication,
        memory=max(costs.stage_memory(outcome.strategies, stage) for stage in operators.stages),
        num_searched=len(operators.vertices) - fixed_vertices,
        num_fixed=fixed_vertices,
        num_candidates=outcome.num_candidates,
        bound=outcome.bound,
        notes=(*outcome.notes, *_settings_without_effect(settings)),
        eliminations=outcome.eliminations,
        rules=tuple(rules_found),
    )


def _settings_without_effect(settings: SearchSettings) -> list[str]:
    """Notes on options that are given and change nothing."""
    given = settings.auto.model_fields_set
    unused = [name for name in _WITHOUT_EFFECT.get(settings.search_mode, ()) if name in given]
    return [f"auto.{name} changes nothing in {settings.search_mode}" for name in unused]


def _cost_model(
    search_mesh: SearchMesh, cluster: Cluster, algorithms: Selection, settings: SearchSettings
) -> CostModel:
    auto = settings.auto
    alpha, beta, gamma = auto.weights(next(iter(cluster.kinds)).device.kind)
    training = settings.training if auto.run_phase is None else auto.run_phase == 0
    weights = CostWeights(alpha, beta, gamma, training)
    sequences = MovementSequences(search_mesh.mesh)
    if auto.cost_model == "mindspore":
        message = MessageCost(auto.communi_threshold, auto.communi_const, auto.communi_bias)
        return SymbolicCostModel(search_mesh, sequences, weights, message)
    return ClusterCostModel(
        search_mesh,
        sequences,
        weights,
        kernel_cost(cluster),
        movement_cost(cluster, search_mesh.mesh, algorithms),
        settings.micro_batches,
        min(settings.stages, settings.micro_batches),
    )
