"""The passes in their order: from the forward graph to the one that is lowered (DESIGN 4.4)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Layout, Mesh
from simcluster.model import Graph, Rules
from simcluster.plan.autodiff import accumulate, differentiate, split_backward
from simcluster.plan.execution import fuse
from simcluster.plan.fine_tuning import add_adapters, freeze
from simcluster.plan.offload import offload, place_offloaded_state, place_on_hosts
from simcluster.plan.optimizer import (
    OptimizerPlan,
    clip,
    decompose_updates,
    optimize,
    use_sparse_gradients,
    whole_parameters,
)
from simcluster.plan.overlap import chunk_collectives
from simcluster.plan.pass_list import Pass, PassList
from simcluster.plan.pipeline import VirtualStages, has_split_backward, place, spread_vocabulary
from simcluster.plan.plan import PipelinePlan, Placement
from simcluster.plan.precision import (
    Numerics,
    cast_chosen_weights,
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
    separate_recompute_phase,
)
from simcluster.plan.redistribution import RedistributionPlanner
from simcluster.plan.rules import OffloadPlan, ShardRequest
from simcluster.plan.sequence import balance_causal_order, slice_sequence, to_ring_attention
from simcluster.plan.sharding import group_batch_statistics, shard
from simcluster.plan.spec import (
    FrameworkSpec,
    InferenceSpec,
    ParallelSpec,
    RecomputeSpec,
    ShardingChoice,
    Task,
)
from simcluster.plan.strategies import Strategies
from simcluster.plan.subgraphs import assign_backward_to_subgraphs, assign_subgraphs
from simcluster.plan.switches import WeightCopies
from simcluster.work import DType


def sequence_passes(ways: int, slices: int, axis: str, *, ring: bool, masked: bool = False) -> Iterator[Pass]:
    """What samples and tokens see of each other: ``ways`` ranks have the batch, ``slices`` the sequences.

    Where turns of a ``ring`` are ``masked``, all are equal as tokens stand.
    """
    yield Pass("group_batch_statistics", partial(group_batch_statistics, ways=ways))
    if not masked:
        path = f"parallel.mesh.{axis}"
        yield Pass("balance_causal_order", partial(balance_causal_order, slices=slices, path=path))
    if ring:
        yield Pass(
            "ring_attention",
            partial(to_ring_attention, slices=slices, path="parallel.context", masked=masked),
        )


def fine_tuning_passes(task: Task) -> Iterator[Pass]:
    """Which weights are not trained, and the adapters that are trained instead."""
    if isinstance(task, InferenceSpec):
        return
    if task.frozen_patterns:
        patterns, lora = task.frozen_patterns, task.lora is not None
        yield Pass("freeze", partial(freeze, patterns=patterns, adapted=lora))
    if task.lora is not None:
        yield Pass("add_adapters", partial(add_adapters, adapters=task.lora.build()))


def fine_tuned(graph: Graph, task: Task) -> Graph:
    """The forward graph with frozen weights and adapters as a task has them."""
    return PassList.of(graph).then(*fine_tuning_passes(task)).graph


def place_layers(layers: Sequence[int], chain: VirtualStages) -> Pass:
    """The pass that gives virtual stages their layers."""
    return Pass("place", partial(place, layers=layers, chain=chain))


def vocabulary_spreading(operators: Sequence[str], method: str, parts: int) -> Pass:
    """The pass that puts the embedding and the output layer on all stages."""
    return Pass(
        "spread_vocabulary",
        partial(spread_vocabulary, operators=tuple(operators), method=method, parts=parts),
    )


def subgraph_assignment(shards: Sequence[ShardRequest]) -> Pass:
    """The pass that tells operators which function of theirs runs as a graph."""
    return Pass("assign_subgraphs", partial(_assign_subgraphs, shards=shards))


def _assign_subgraphs(graph: Graph, shards: Sequence[ShardRequest]) -> Graph:
    """The graph in which operators know their piece."""
    return assign_subgraphs(graph, shards)[0]


def sequence_slicing(slices: int) -> Pass:
    """The pass that makes an instance for every slice of sequences."""
    return Pass("slice_sequence", partial(slice_sequence, slices=slices))


def derivative_passes(numerics: Numerics) -> Iterator[Pass]:
    """What one device would compute: forward and backward, products on fp8 copies where that is asked for."""
    yield Pass("differentiate", partial(differentiate, gradient_dtype=numerics.gradients))
    if numerics.fp8 is not None:
        yield Pass("quantise", partial(quantise, plan=numerics.fp8))


def sparse_gradients(rules: Rules, num_terms: int, served: Sequence[str] = ()) -> Pass:
    """The pass that keeps gradients of tables as ids and rows, ``num_terms`` of them to be added up; those of
    ``served`` parameters are split as the samples are.
    """
    own = tuple(served)
    return Pass(
        "sparse_gradients", partial(use_sparse_gradients, rules=rules, num_terms=num_terms, served=own)
    )


def sharding_pass(
    strategies: Strategies,
    mesh: Mesh,
    sharder: RedistributionPlanner,
    feeds: Mapping[str, Layout],
    decomposed: Collection[str],
    stage_axis: str,
) -> Pass:
    """The pass that gives every value a layout; families ``decomposed`` run as their passes."""
    return Pass(
        "shard",
        partial(
            shard,
            strategies=strategies,
            mesh=mesh,
            router=sharder,
            feeds=feeds,
            passes=decomposed,
            stage_axis=stage_axis,
        ),
    )


@dataclass(frozen=True, slots=True)
class Passes:
    """The passes behind differentiation, made from the values of a plan."""

    placement: Placement
    """The mesh and its axes."""
    pipeline: PipelinePlan
    """The timetables say whether backwards are split, and recomputed ahead."""
    numerics: Numerics
    """The number formats."""
    sharder: RedistributionPlanner
    """Redistributes activations and their gradients."""
    router: RedistributionPlanner
    """Redistributes what belongs to parameters."""
    framework: FrameworkSpec
    """What is fused, recomputed and cast as the framework does it."""
    optimizer: OptimizerPlan | None
    """How parameters are updated; None: nothing is trained."""
    parallel: ParallelSpec
    """What the scenario recomputes, overlaps, and places on hosts."""
    offload: OffloadPlan = OffloadPlan()
    """What is kept off the devices."""

    def after_sharding(self) -> Iterable[Pass]:
        """The passes behind sharding: they recompute, optimise and fuse a graph in which all have layouts."""
        passes: Iterable[Pass] = self._after_sharding()
        for choice in self.framework.choices:
            passes = choice.passes(passes)
        return passes

    def _after_sharding(self) -> Iterator[Pass]:
        if self.optimizer is not None:
            yield from self._training(self.optimizer)
        yield Pass("assign_backward_to_subgraphs", partial(assign_backward_to_subgraphs))
        framework = self.framework
        yield Pass(
            "fuse",
            partial(
                fuse,
                pairs=framework.fuse,
                apart=self.parallel.fused.closed,
                inside=framework.graphs.fuse,
                skip_bias_add=framework.skip_bias_add,
            ),
        )
        if self.parallel.overlap:
            yield Pass(
                "collective_matmul",
                partial(chunk_collectives, chosen=self.parallel.overlap, mesh=self.placement.mesh),
            )
        yield Pass(
            "place_offloaded_state",
            partial(place_offloaded_state, plan=self.offload, mesh=self.placement.mesh),
        )
        if self.parallel.host:
            yield Pass("place_on_hosts", partial(place_on_hosts, patterns=self.parallel.host))
        yield Pass("offload", partial(offload, plan=self.offload, mesh=self.placement.mesh))
        yield Pass(
            "separate_recompute_phase", partial(separate_recompute_phase, timetables=self.pipeline.timetables)
        )

    def _training(self, optimizer: OptimizerPlan) -> Iterator[Pass]:
        """The passes of training."""
        yield from self._weights(optimizer.sharding)
        # What is computed again reads weights as the backward does, which gathering them has to know.
        yield from self._again(optimizer.sharding)
        mesh, router, stage_axis = self.placement.mesh, self.router, self.placement.stage_axis
        yield Pass(
            "optimize", partial(optimize, plan=optimizer, mesh=mesh, router=router, stage_axis=stage_axis)
        )
        if optimizer.clip is not None:
            yield Pass(
                "clip_gradients",
                partial(clip, limit=optimizer.clip, mesh=mesh, router=router, stage_axis=stage_axis),
            )
        yield Pass("decompose_updates", partial(decompose_updates, router=router))
        layers, shared = (
            any(has_split_backward(timetable, shared=shared) for timetable in self.pipeline.timetables)
            for shared in (False, True)
        )
        if layers:
            yield Pass("split_backward", partial(split_backward))
        elif shared:
            yield Pass("split_backward", partial(split_backward, shared=True))

    def _weights(self, sharding: ShardingChoice) -> Iterator[Pass]:
        """In which formats weights are read, how often they are cast, and who adds up their gradients."""
        if self.numerics.fp8 is not None:
            yield Pass(
                "repeat_fp8_casts", partial(repeat_casts, transposed_behind=self.numerics.fp8.behind_gathers)
            )
            if not sharding.weights:
                yield Pass("cast_fp8_once_per_step", partial(cast_once_per_step))
        yield Pass(
            "accumulate",
            partial(
                _accumulate,
                framework=self.framework,
                compute=self.numerics.compute,
                sharding=sharding,
                mesh=self.placement.mesh,
            ),
        )
        if self.numerics.cast:
            yield Pass("cast_weights", partial(cast_weights))
        if self.numerics.cast_whole:
            yield Pass(
                "cast_whole_weights",
                partial(_cast_whole_weights, sharding=sharding, mesh=self.placement.mesh),
            )

    def _again(self, sharding: ShardingChoice) -> Iterator[Pass]:
        """What is computed or cast once more for the backward."""
        spec = self.parallel.recompute
        yield Pass("recompute_layers", partial(_recompute_layers, spec=spec))
        yield Pass(
            "recompute_operators",
            partial(
                recompute_operators,
                patterns=spec.operators,
                keep_outputs=spec.keep_outputs,
                collectives=spec.collectives,
            ),
        )
        if spec.slice:
            yield Pass(
                "distribute_saved_activations",
                partial(
                    distribute_saved_inputs,
                    mesh=self.placement.mesh,
                    axes=self._replicated_axes(),
                    router=self.sharder,
                ),
            )
        casts = self.numerics.cast or self.numerics.cast_whole
        if casts and self.framework.weights is WeightCopies.CAST_TWICE:
            yield Pass("cast_weights_again", partial(recast_in_backward))
        if sharding.weights and self.numerics.fp8 is not None:
            yield Pass("cast_fp8_per_use", partial(cast_per_use))

    def _replicated_axes(self) -> tuple[str, ...]:
        """The axes along which ranks may keep parts of what is the same on all of them."""
        other = (*self.placement.batch_axes, self.placement.stage_axis)
        return tuple(axis for axis in self.placement.mesh.names if axis not in other)


def _accumulate(
    graph: Graph, framework: FrameworkSpec, compute: DType, sharding: ShardingChoice, mesh: Mesh
) -> Graph:
    """The graph with additions of gradients: one that is scattered first is added by the scatter."""
    alone = whole_parameters(graph, sharding, DType.FP32, mesh) if sharding.gradients else None
    return accumulate(graph, framework.accumulate, compute, casts=framework.gradient_casts, chosen=alone)


def _cast_whole_weights(graph: Graph, sharding: ShardingChoice, mesh: Mesh) -> Graph:
    """The graph whose parameters that are not sharded are fp32 and cast for use, as the shards of others."""
    return cast_chosen_weights(graph, whole_parameters(graph, sharding, DType.FP32, mesh))


def _recompute_layers(graph: Graph, spec: RecomputeSpec, *, needed: bool = False) -> Graph:
    """The graph whose chosen layers keep their inputs only, and compute their forward again."""
    layers = recomputed_layers(graph, spec.layers)
    return recompute(graph, layers, needed=needed, collectives=spec.collectives)
