"""The values that a plan by strategies is made of: each decided by the scenario and those before it."""

from __future__ import annotations

import math
from dataclasses import replace

from simcluster.errors import PlanError
from simcluster.layout import Mesh, Movement, MovementKind, unsplit_mesh
from simcluster.model import (
    Graph,
    Model,
    Routed,
    WithVocabulary,
    padded,
)
from simcluster.plan.data import micro_batches_of
from simcluster.plan.diagnostics import (
    check_passes,
    check_rates,
)
from simcluster.plan.execution import ExecutionPolicy, GraphLaunch
from simcluster.plan.optimizer import OptimizerPlan
from simcluster.plan.overlap import (
    interleave_micro_batches,
    interleaved_samples,
)
from simcluster.plan.pipeline import VirtualStages, default_layers, forward_only, written_layers
from simcluster.plan.plan import PipelinePlan, Placement
from simcluster.plan.planner_base import Planner
from simcluster.plan.precision import Numerics, groups_of, states_of, update_of
from simcluster.plan.rules import (
    SEQUENCE,
    ShardRequest,
    StrategyRule,
    sequence_slices,
)
from simcluster.plan.sequence import check_slicing_axes, slice_length
from simcluster.plan.spec import (
    InferenceSpec,
    RecipeSpec,
    ShardingChoice,
    fusible_collectives,
    fusion_ids,
    mesh_sharding,
    samples,
)
from simcluster.plan.strategies import (
    vocabulary_divisor_of,
)
from simcluster.work import DType


class PlanValues(Planner):
    """Decides what a plan is made of, before and beside its graph."""

    @property
    def inference(self) -> InferenceSpec | None:
        """The inference section, if nothing is trained."""
        return self.task if isinstance(self.task, InferenceSpec) else None

    def _recipe(self, mesh: Mesh) -> str:
        """The recipe that is used: the one that is named, or the usual one for the mesh."""
        if self.parallel.recipe is not None:
            return self.parallel.recipe
        chosen = self.parallel.mode == "semi_auto" and not (self.parallel.propagate or self.parallel.shard)
        tensor = chosen and "tensor" in unsplit_mesh(mesh).sizes
        return self.model.tensor_recipe if tensor else "data"

    def _rules(self, mesh: Mesh) -> list[StrategyRule]:
        """All rules by precedence: later entries before earlier ones, the user's before the recipe's."""
        own = [
            entry.rule("scenario", f"parallel.strategies.{index}")
            for index, entry in enumerate(self.parallel.strategies)
        ]
        name = self._recipe(mesh)
        shipped = [entry.rule(f"recipe {name}") for entry in RecipeSpec.load(name).strategies]
        return own[::-1] + shipped[::-1]

    def _shards(self) -> list[ShardRequest]:
        """The functions that are to be graphs, as they are written."""
        return [entry.build(place) for place, entry in enumerate(self.parallel.shard)]

    def _sharding(self, placement: Placement) -> ShardingChoice:
        """What lies sharded: as the scenario says, or else the recipe."""
        written = self.parallel.optimizer_sharding
        if self.inference:
            return ShardingChoice()
        if written is None:
            written = RecipeSpec.load(self._recipe(placement.mesh)).optimizer_sharding
        return mesh_sharding(written, placement.roles, placement.mesh, placement.stage_axis)

    def _numerics(self, sharding: ShardingChoice) -> Numerics:
        """The number formats of a scenario whose optimizer is sharded so."""
        numerics = Numerics.of(self.task.formats, self.framework, sharding)
        check_rates(self.cluster, numerics.compute, numerics.matmul, spared=self.parallel.num_server_ranks)
        return numerics

    def _model(self, placement: Placement) -> Model:
        """The model as this plan computes it, its vocabulary padded."""
        rules = self._rules(placement.mesh)
        model = self.computed(self._padded(placement))
        slices = sequence_slices(rules, placement.roles, placement.mesh)
        return model.in_slices(slices) if slices > 1 and isinstance(model, Routed) else model

    def _vocabulary_ways(self, placement: Placement) -> int:
        """Over how many ranks strategies split the vocabulary; of a stage, where all stages share it."""
        model = self.model
        if not isinstance(model, WithVocabulary):
            return 1
        rules = self._rules(placement.mesh)
        if self.parallel.schedule.vocabulary:
            rules = [rule.without(placement.stage_axis) for rule in rules]

        def unpadded() -> Graph:
            return self.model.graph(1, self.task.seq_len, DType.FP32, 1)

        operators = model.vocabulary_operators
        return vocabulary_divisor_of(operators, unpadded, rules, placement.mesh, placement.roles)

    def _padded(self, placement: Placement) -> Model:
        """The model with a vocabulary that every rank which shares it holds an equal part of."""
        if not isinstance(self.model, WithVocabulary):
            return self.model
        ways = self._vocabulary_ways(placement)
        multiple = self.framework.vocabulary_multiple * ways
        if self.parallel.schedule.vocabulary:
            # A multiple of twice the stages, as in the paper (arXiv 2411.05288).
            multiple = math.lcm(multiple, 2 * ways * placement.mesh.size(placement.stage_axis))
        return padded(self.model, multiple)

    def _pipeline(self, placement: Placement) -> PipelinePlan:
        """What the stages do, with how many micro-batches."""
        num_stages = placement.mesh.size(placement.stage_axis)
        schedule = self.parallel.schedule.build()
        once = schedule.chain(num_stages)
        slices = 1 if self.inference else schedule.num_slices
        check_slicing_axes(slices, placement.roles.resolve((SEQUENCE,), placement.mesh))
        length = slice_length(self.task.seq_len, slices)
        if slices > 1 and (refusal := self.model.seq_len_error(length)):
            refusal += f", as each of {slices} slices has"
            raise PlanError(refusal, path="parallel.schedule.slices")
        layers = self._layers(once)
        copies = self.parallel.copies
        size = samples(self.task, placement.batch_ways)
        micro_batch = interleaved_samples(size, copies)
        batches = micro_batches_of(
            self.task.global_batch,
            size,
            self.task.batch_shares,
            placement.batch_axes,
            placement.mesh,
            "inference.batch" if self.inference else "training.global_batch",
        ).in_copies(copies)
        generation = self.inference.generation(batches.most) if self.inference else None
        passes = generation.num_passes if generation else 1
        check_passes(self.model.num_layers, batches.most, passes=passes)
        return PipelinePlan(
            chain=VirtualStages.round_robin(num_stages, passes) if generation else once,
            timetables=tuple(
                interleave_micro_batches(
                    forward_only(num_stages, passes, count // copies)
                    if generation
                    else schedule.timetable(num_stages, count // copies),
                    copies,
                )
                for count in batches.counts
            ),
            batches=batches,
            micro_batch=micro_batch,
            layers=layers,
            chunks=once.by_chunk(layers),
            micro_batch_interleave=copies,
            slices=slices,
            overlapped=bool(generation) or self.parallel.schedule.overlapped(self.framework, once),
            inputs=self.inputs,
            generation=generation,
        )

    def _layers(self, chain: VirtualStages) -> tuple[int, ...]:
        """Layers of each virtual stage."""
        given = self.parallel.schedule.stages
        if given == "auto":
            return default_layers(self.model.num_layers, len(chain), chain.num_chunks)
        return written_layers(given, chain)

    def _optimizer(
        self, numerics: Numerics, sharding: ShardingChoice, batch_axes: tuple[str, ...]
    ) -> OptimizerPlan | None:
        if isinstance(self.task, InferenceSpec):
            return None
        update = update_of(self.task.optimizer)
        return OptimizerPlan(
            update,
            numerics.master,
            states_of(update, self.task.optimizer),
            sharding,
            self.framework.main_gradients,
            self.framework.reduction.copies,
            self.parallel.recompute.gathers,
            groups=groups_of(self.task.optimizer),
            clip=self.task.optimizer.clip,
            servers=self.parallel.parameter_server,
            whole_sums=self.framework.reduction.sums == "whole",
            batch_axes=batch_axes,
        )

    def _execution(
        self, logical: Graph, graph: Graph, placement: Placement, sharding: ShardingChoice
    ) -> ExecutionPolicy:
        """What overlaps, what waits, and what travels together."""
        fusion, said = self.parallel.fused, self.framework.graphs
        ids = fusion_ids(fusion.ids, [name for name, _ in logical.parameters()])
        mesh, batch_axes, stage_axis = placement.mesh, placement.batch_axes, placement.stage_axis
        fusion = fusion.only(fusible_collectives(graph))
        policy = ExecutionPolicy.of(self.framework, sharding, mesh, batch_axes, stage_axis, fusion, ids)
        prefetch = self.framework.prefetch if said.prefetch is None else said.prefetch
        launch = GraphLaunch(said.launch, prefetch)
        if policy.tokens_once:
            policy = replace(policy, exchange_pods=self._exchange_pods(graph, mesh))
        return replace(policy, graphs=launch, algorithms=self.algorithms, call_reuse=self.parallel.reuse)

    def _exchange_pods(self, graph: Graph, mesh: Mesh) -> dict[tuple[str, ...], int]:
        """In how many pods, or hosts, the ranks are that exchange tokens, by the axes of the exchange."""
        exchanges = {
            node.operator.axes
            for _, node in graph.nodes()
            if isinstance(node.operator, Movement) and node.operator.kind is MovementKind.ALL_TO_ALL
        }
        return {axes: self.cluster.pods_spanned(mesh.groups(axes)) for axes in sorted(exchanges)}
