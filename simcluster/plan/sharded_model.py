"""A model sharded over a mesh: what plans have in common that differ only in what comes behind sharding."""

from __future__ import annotations

from collections.abc import Hashable

from simcluster.deferred_dataclass import dataclass
from simcluster.model import Graph, Model
from simcluster.plan.pass_list import PassList
from simcluster.plan.plan import Placement
from simcluster.plan.redistribution import RedistributionPlanner
from simcluster.plan.strategies import Strategies
from simcluster.plan.subgraphs import BlockSubgraphs


@dataclass(frozen=True, slots=True)
class ShardedModel:
    """The graph of a plan up to sharding. Recomputation, sharded optimizers and offload come behind it."""

    model: Model
    """The model as it is computed, its vocabulary padded."""
    placement: Placement
    """The mesh, its axes split as strategies need them."""
    forward: Graph
    """The forward pass on its stages, in logical shapes."""
    subgraphs: BlockSubgraphs
    """What of it runs as graphs."""
    strategies: Strategies
    """How operators are split."""
    sharder: RedistributionPlanner
    """Redistributes activations and their gradients."""
    router: RedistributionPlanner
    """Redistributes what belongs to parameters."""
    logical: Graph
    """What one device would compute."""
    passes: PassList
    """The passes up to sharding, and the graph behind them."""


ShardedModels = dict[Hashable, ShardedModel]
"""Sharded models of earlier plans, by what they depend on, for plans of the same model, task and mesh."""
