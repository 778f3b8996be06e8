"""The passes in their order: from the forward graph to the one that is lowered (DESIGN 4.4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from simcluster.layout import Layout, Mesh
from simcluster.model import Graph
from simcluster.plan.autodiff import ALL, accumulate, differentiate, split_backward
from simcluster.plan.execution import fuse
from simcluster.plan.offload import offload, place_offloaded_state, place_on_hosts
from simcluster.plan.optimizer import OptimizerPlan, clip, decompose_updates, optimize
from simcluster.plan.overlap import chunk_collectives
from simcluster.plan.precision import (
    Formats,
    cast_once_per_step,
    cast_per_use,
    cast_weights,
    quantise,
    recast_in_backward,
    repeat_casts,
)
from simcluster.plan.recompute import (
    distribute_saved_inputs,
    recompute,
    recompute_operators,
    recomputed_layers,
)
from simcluster.plan.redistribution import RedistributionPlanner
from simcluster.plan.rules import OffloadPlan
from simcluster.plan.sharding import shard
from simcluster.plan.spec import FrameworkSpec, OverlapSpec, RecomputeSpec, ShardingChoice
from simcluster.plan.strategies import Strategies
from simcluster.plan.subgraphs import assign_backward_to_subgraphs


def differentiated_graph(placed: Graph, formats: Formats) -> Graph:
    """What one device would compute: forward and backward, products on fp8 copies where that is asked for."""
    graph = differentiate(placed, formats.gradients)
    return graph if formats.fp8 is None else quantise(graph, formats.fp8)


@dataclass(frozen=True, slots=True)
class Passes:
    """What the passes behind differentiation need to know; ``limit`` is that of the gradients' norm.

    ``sharder`` moves activations and their gradients, ``router`` what belongs to parameters. ``feeds`` are
    the layouts of inputs that come in one of their own. ``alike`` are the axes along which ranks may keep
    parts of what is the same on all of them. ``apart``: every collective travels by itself; ``split``:
    backwards are done in two halves. ``overlap`` says by axis which collectives go in chunks with matmuls.
    Without an ``optimizer`` nothing is trained. ``host`` are patterns of operators that run there.
    """

    mesh: Mesh
    stage_axis: str
    strategies: Strategies
    sharder: RedistributionPlanner
    router: RedistributionPlanner
    formats: Formats
    framework: FrameworkSpec
    optimizer: OptimizerPlan | None
    recompute: RecomputeSpec
    limit: float | None
    feeds: Mapping[str, Layout]
    alike: tuple[str, ...] = ()
    apart: bool = False
    split: bool = False
    offload: OffloadPlan = OffloadPlan()
    host: tuple[str, ...] = ()
    overlap: Mapping[str, OverlapSpec] = field(default_factory=dict)

    def run(self, graph: Graph) -> Graph:
        """Shards, recomputes, optimises and fuses a differentiated graph, or one that stays forward."""
        passes = self.framework.passes
        return self.behind(shard(graph, self.strategies, self.mesh, self.sharder, self.feeds, passes))

    def behind(self, graph: Graph) -> Graph:
        """The passes behind sharding: recomputes, optimises and fuses a graph in which all have layouts."""
        if self.optimizer is not None:
            graph = self._trained(graph, self.optimizer)
        together = self.framework.optimizer == "together"
        graph = assign_backward_to_subgraphs(graph)
        inside = self.framework.graphs.fuse
        graph = fuse(graph, self.framework.fuse, together=together, apart=self.apart, inside=inside)
        graph = chunk_collectives(graph, self.overlap, self.mesh)
        graph = place_on_hosts(place_offloaded_state(graph, self.offload, self.mesh), self.host)
        return offload(graph, self.offload, self.mesh)

    def _trained(self, graph: Graph, optimizer: OptimizerPlan) -> Graph:
        """The passes of training."""
        graph = self._weights(graph, optimizer.sharding)
        # What is computed again reads weights as the backward does, which gathering them has to know.
        graph = self._again(graph, optimizer.sharding)
        graph = optimize(graph, optimizer, self.mesh, self.router, self.stage_axis)
        if self.limit is not None:
            graph = clip(graph, self.limit, self.mesh, self.router, self.stage_axis)
        graph = decompose_updates(graph, self.router)
        return split_backward(graph) if self.split else graph

    def _weights(self, graph: Graph, sharding: ShardingChoice) -> Graph:
        """In which formats weights are read, how often they are cast, and who adds up their gradients."""
        graph = repeat_casts(graph)
        if not sharding.weights:
            graph = cast_once_per_step(graph)
        # A gradient that is scattered first is added to its buffer by the scatter.
        families = ALL if sharding.gradients else self.framework.accumulate
        graph = accumulate(graph, families, self.formats.compute)
        return cast_weights(graph) if self.formats.cast else graph

    def _again(self, graph: Graph, sharding: ShardingChoice) -> Graph:
        """What is computed or cast once more for the backward."""
        spec = self.recompute
        layers = recomputed_layers(graph, spec.layers)
        needed = self.framework.recompute == "needed"
        graph = recompute(graph, layers, needed=needed, collectives=spec.collectives)
        graph = recompute_operators(graph, spec.operators, collectives=spec.collectives)
        if spec.slice:
            graph = distribute_saved_inputs(graph, self.mesh, self.alike, self.sharder)
        if self.formats.cast and self.framework.weights == "cast_twice":
            graph = recast_in_backward(graph)
        return cast_per_use(graph) if sharding.weights else graph
