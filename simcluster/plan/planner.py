"""The planner: from what a scenario says of model, cluster and strategies to the Plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from simcluster.errors import PlanError, Problem
from simcluster.layout import Layout, Mesh, unsplit_mesh, whole
from simcluster.model import (
    Generative,
    Graph,
    Model,
    Routed,
    WithVocabulary,
    generation_refusal,
    vocabulary_of,
)
from simcluster.plan.data import check_inputs, check_shares, check_unequal_batches, micro_batches_of
from simcluster.plan.diagnostics import (
    balance_hints,
    better_order,
    check_passes,
    check_rates,
    check_tensors,
    padding_notes,
    plan_notes_of,
    propagation_notes,
    settings_without_effect,
    size_problems,
)
from simcluster.plan.execution import ExecutionPolicy
from simcluster.plan.offload import check_hosts, report_not_offloaded
from simcluster.plan.optimizer import OptimizerPlan, report_dense_updates, sparse_parameters
from simcluster.plan.overlap import (
    describe_chunked_collectives,
    describe_interleaving,
    interleave_micro_batches,
    interleaved_samples,
)
from simcluster.plan.pass_list import PassList
from simcluster.plan.passes import (
    Passes,
    derivative_passes,
    placement,
    sequence_passes,
    sequence_slicing,
    sparse_gradients,
    subgraph_assignment,
)
from simcluster.plan.pipeline import VirtualStages, default_layers, forward_only, written_layers
from simcluster.plan.plan import Plan
from simcluster.plan.planner_base import Planner
from simcluster.plan.precision import Formats, groups_of, states_of, update_of
from simcluster.plan.redistribution import RedistributionPlanner, kernel_cost, movement_cost
from simcluster.plan.rules import (
    BATCH,
    PIPELINE,
    SEQUENCE,
    AxisRoles,
    StrategyRule,
    sequence_slices,
    stage_devices,
)
from simcluster.plan.sequence import check_slices, check_slicing_axes, slice_length
from simcluster.plan.sharding import propagate
from simcluster.plan.spec import (
    InferenceSpec,
    RecipeSpec,
    ShardingChoice,
    fusible_collectives,
    fusion_ids,
    mesh_sharding,
    samples,
    sharding_sub_axes,
    unused_fusion,
)
from simcluster.plan.strategies import (
    CONTEXT,
    assign_strategies,
    check_mesh,
    roles_of,
    split_mesh_axes,
    unknown_axes,
    unused_axes,
    vocabulary_divisor_of,
)
from simcluster.plan.subgraphs import (
    GraphLaunch,
    assign_subgraphs,
    boundary_sub_axes,
    describe_subgraphs,
    find_boundary_constraints,
    subgraph_refusal,
)
from simcluster.work import DType


class StrategyPlanner(Planner):
    """The planner of the modes in which everything follows from strategies."""

    def plan(self) -> Plan:
        """Decides what the passes need to know, and runs them."""
        self.mesh = Mesh.of(self.parallel.sizes)
        self.shards = [each.build(place) for place, each in enumerate(self.parallel.shard)]
        self.roles = AxisRoles(roles_of(self.parallel))
        self._check()
        self._step()
        forward = self._placed()
        placed = forward.graph
        self._strategies_of(placed)
        check_slices(self.slices, placed, self.sharding, pieces=bool(self.pieces))
        optimizer = self._optimizer()
        sliced = forward.then(sequence_slicing(self.slices)) if self.slices > 1 else forward
        sliced = self._differentiated(sliced, optimizer)
        logical = sliced.graph
        if self.slices > 1:
            # What one device computes knows of no slices.
            whole = self._forward(self.padded, self.task.seq_len).then(placement(self.layers, self.chain))
            logical = self._differentiated(whole, optimizer).graph
        fusion = self.parallel.fused
        ids = fusion_ids(fusion.ids, [name for name, _ in logical.parameters()])
        passes = self._passes(logical, optimizer)
        done = sliced.then(passes.sharding(), *passes.after_sharding())
        graph = done.graph
        check_hosts(graph, self.cluster)
        check_unequal_batches(graph, self.batches, gathered_once=self.sharding.gather_once)
        return Plan(
            passes=done,
            logical=logical,
            mesh=self.mesh,
            stage_axis=self.stage_axis,
            timetables=self.timetables,
            strategies=self.strategies,
            update=passes.optimizer.rules if passes.optimizer else None,
            batches=self.batches,
            micro_batch=self.micro_batch,
            copies=self.parallel.copies,
            batch_axes=self.batch_axes,
            chain=self.chain,
            chunks=self.once.by_chunk(self.layers),
            vocab=vocabulary_of(self.padded),
            overlapped=bool(self.generation) or self.parallel.schedule.overlapped(self.framework, self.once),
            prefetch=self.framework.prefetch,
            dispatch=self.framework.host,
            graphs=self._graphs(),
            conduct=ExecutionPolicy.of(
                self.framework,
                self.sharding,
                self.mesh,
                self.batch_axes,
                self.stage_axis,
                fusion.only(fusible_collectives(graph)),
                ids,
            ),
            compute=self.formats.compute,
            gradients=self.formats.gradients,
            master=self.formats.master,
            sharding=self.sharding,
            recipe=self._recipe(),
            notes=tuple(self._notes(placed, logical, graph)),
            matmul=self.formats.matmul,
            states=passes.optimizer.states if passes.optimizer else {},
            clip=passes.limit,
            algorithms=self.algorithms,
            call=float(self.framework.collective_call or 0.0),
            reuse=self.parallel.reuse,
            recompute=self.parallel.recompute,
            inputs=self.inputs,
            offload=self.offload,
            pieces=self.pieces,
            generation=self.generation,
            routing=self.task.routing.build(),
        )

    # -- step by step -----------------------------------------------------------------------------------

    def _step(self) -> None:
        """What the stages do, with how many micro-batches, in which formats."""
        self.stage_axis, num_stages = self._stages()
        schedule = self.parallel.schedule.build()
        self.once = self.chain = schedule.chain(num_stages)
        self.slices = 1 if self.inference else schedule.num_slices
        check_slicing_axes(self.slices, self.roles.resolve((SEQUENCE,), self.mesh))
        self.length = slice_length(self.task.seq_len, self.slices)
        if self.slices > 1 and (refusal := self.model.refuses(self.length)):
            refusal += f", as each of {self.slices} slices has"
            raise PlanError(refusal, path="parallel.schedule.slices")
        self.layers = self._layers(self.once)
        self.batch_axes = self.roles.resolve((BATCH,), self.mesh)
        copies = self.parallel.copies
        whole = samples(self.task, self.mesh.product(self.batch_axes))
        self.micro_batch = interleaved_samples(whole, copies)
        self.batches = micro_batches_of(
            self.task.global_batch,
            whole,
            self.task.batch_shares,
            self.batch_axes,
            self.mesh,
            "inference.batch" if self.inference else "training.global_batch",
        ).in_copies(copies)
        self.generation = self.inference.generation(self.batches.most) if self.inference else None
        passes = self.generation.num_passes if self.generation else 1
        check_passes(self.model.num_layers, self.batches.most, swept=False, passes=passes)
        if self.generation:
            self.chain = VirtualStages.wrapped(num_stages, passes)
        self.timetables = tuple(
            interleave_micro_batches(
                forward_only(num_stages, passes, count // copies)
                if self.generation
                else schedule.timetable(num_stages, count // copies),
                copies,
            )
            for count in self.batches.counts
        )
        self.sharding = self._sharding()
        self.formats = Formats.of(self.task.formats, self.framework, self.sharding)
        check_rates(self.cluster, self.formats.compute, self.formats.matmul)
        check_inputs(self.inputs, self.cluster)
        self.offload = self.parallel.offload.build().on(self.cluster)

    def _placed(self) -> PassList:
        """The forward graph of a micro-batch of all ranks on its stages; the mesh is cut as it needs it."""
        rules = self._rules()
        self.padded = self.computed(self._padded(rules))
        slices = sequence_slices(rules, self.roles, self.mesh)
        if slices > 1 and isinstance(self.padded, Routed):
            self.padded = self.padded.in_slices(slices)
        passes = len(self.chain) // len(self.once)
        forward = self._forward(self.padded, self.length).then(placement(self.layers * passes, self.chain))
        self.pieces = assign_subgraphs(forward.graph, self.shards)[1]
        if self.shards:
            forward = forward.then(subgraph_assignment(self.shards))
        placed = forward.graph
        others = list(boundary_sub_axes(placed, self.pieces, self.mesh, self.roles))
        if self.inputs is not None:
            others += self.inputs.digits(placed, stage_devices(self.mesh, self.roles))
        others += sharding_sub_axes(self.sharding, self.mesh, self.stage_axis)
        self.mesh, self.roles = split_mesh_axes(placed, rules, self.mesh, self.roles, self.stage_axis, others)
        self.batch_axes = self.roles.resolve((BATCH,), self.mesh)
        check_shares(self.batches, self.mesh)
        self.sharding = self._sharding()
        return forward

    def _forward(self, model: Model, length: int) -> PassList:
        """What one device computes forward on sequences of this length, in the order and the turns that they
        are split in.
        """
        ways = self.mesh.product(self.batch_axes)
        batch = self.micro_batch * ways
        if self.generation:
            assert isinstance(model, Generative), "others are refused"
            known = vocabulary_of(self.model)
            found = model.generating(batch, self.formats.compute, self.generation, known)
            check_tensors(found)
            return PassList.of(found)
        counted = self.parallel.tokens_counted(self.task.global_batch * self.task.seq_len, ways)
        forward = model.graph(batch, length, self.formats.compute, counted)
        slices = self.roles.resolve((SEQUENCE,), self.mesh)
        ring = self.parallel.context == "ring"
        if ring and not slices:
            hint = f"name an axis {CONTEXT}, or say parallel.roles.{SEQUENCE}"
            raise PlanError("no axis of the mesh splits sequences", path="parallel.context", hint=hint)
        axis = slices[0] if slices else ""
        whole = sequence_passes(ways, self.mesh.product(slices), axis, ring=ring)
        made = PassList.of(forward).then(*whole)
        check_tensors(made.graph)
        return made

    def _strategies_of(self, placed: Graph) -> None:
        """How operators are split, and who moves what lies otherwise than it is wanted."""
        cost = movement_cost(self.cluster, self.mesh, self.algorithms)
        how, pads = self.parallel.redistribution, self.parallel.pads
        self.router = RedistributionPlanner(self.mesh, cost, pads=pads)
        self.sharder = RedistributionPlanner(self.mesh, cost, how.infers, how.exchanges, pads)
        found = assign_strategies(placed, self._rules(), self.mesh, self.roles, pads=pads)
        if self.parallel.propagate or self.pieces:
            fixed = (
                find_boundary_constraints(placed, self.pieces, found, self.mesh, self.roles, pads=pads)
                if self.pieces
                else None
            )
            price = kernel_cost(self.cluster)
            found = propagate(placed, found, self.mesh, self.roles, self.sharder, price, fixed)
        self.strategies = found

    def _differentiated(self, forward: PassList, optimizer: OptimizerPlan | None) -> PassList:
        """The graph with its backward pass, if it is trained; PlanError if its gradients cannot be used."""
        if optimizer is None:
            return forward
        terms = self.batches.most * self.slices
        logical = forward.then(*derivative_passes(self.formats), sparse_gradients(optimizer.rules, terms))
        clipped = not isinstance(self.task, InferenceSpec) and self.task.optimizer.clip is not None
        if clipped and (rows := sparse_parameters(logical.graph)):
            raise PlanError(
                f"the gradient of '{rows[0]}' is ids and rows, of which no norm is taken",
                path="training.optimizer.clip",
                hint="leave it out, or use a rule that changes whole parameters",
            )
        return logical

    def _passes(self, logical: Graph, optimizer: OptimizerPlan | None) -> Passes:
        feeds: Mapping[str, Layout] = {}
        if self.inputs is not None:
            pads, cut = self.parallel.pads, self.roles.cut
            feeds = self.inputs.layouts(logical, self.mesh, self.stage_axis, cut, pads=pads)
        return Passes(
            mesh=self.mesh,
            stage_axis=self.stage_axis,
            timetables=self.timetables,
            strategies=self.strategies,
            sharder=self.sharder,
            router=self.router,
            formats=self.formats,
            framework=self.framework,
            optimizer=optimizer,
            recompute=self.parallel.recompute,
            limit=None if isinstance(self.task, InferenceSpec) else self.task.optimizer.clip,
            feeds=feeds,
            alike=tuple(a for a in self.mesh.names if a not in (*self.batch_axes, self.stage_axis)),
            apart=self.parallel.fused.closed,
            offload=self.offload,
            host=self.parallel.host,
            overlap=self.parallel.overlap,
        )

    def _optimizer(self) -> OptimizerPlan | None:
        if isinstance(self.task, InferenceSpec):
            return None
        update = update_of(self.task.optimizer)
        return OptimizerPlan(
            update,
            self.formats.master,
            states_of(update, self.task.optimizer),
            self.sharding,
            self.framework.main_gradients,
            self.framework.reduction.copies,
            self.parallel.recompute.gathers,
            groups=groups_of(self.task.optimizer),
        )

    def _notes(self, placed: Graph, logical: Graph, graph: Graph) -> Iterator[str]:
        """What the user should be told."""
        yield from self.model.remarks(self.task.seq_len)
        yield from plan_notes_of(
            self.parallel,
            self._recipe(),
            self.strategies,
            self.sharding,
            self.mesh,
            self.roles,
            self.algorithms,
            (vocabulary_of(self.model), vocabulary_of(self.padded)),
        )
        optimizer = self._optimizer()
        yield from report_dense_updates(logical, optimizer.rules) if optimizer else ()
        told = describe_interleaving(self.parallel.copies, self.micro_batch, self.framework)
        yield from [told] if told else []
        yield from describe_chunked_collectives(self.parallel.overlap, graph)
        yield from describe_subgraphs(placed, self.pieces)
        yield from propagation_notes(self.strategies, graph, self.sharder)
        yield from padding_notes(placed, self.strategies, self.mesh) if self.parallel.pads else ()
        yield from self.offload.remarks(self.batches.most * self.slices)
        yield from report_not_offloaded(graph, self.offload, self.mesh)
        yield from settings_without_effect(self.parallel, graph, self.sharding)
        yield from unused_fusion(self.parallel.fused, graph, self.sharding)
        num_micro_batches = self.batches.most * self.slices
        yield from better_order(
            graph, self.mesh, self.roles, self.cluster, self.algorithms, num_micro_batches
        )
        yield from balance_hints(
            self.cluster,
            self.mesh,
            self.formats.matmul,
            self.layers,
            self.stage_axis,
            [axis for axis in self.batch_axes if axis == whole(axis)],
            shared=bool(self.task.batch_shares),
            staged=self.parallel.schedule.stages != "auto" or self.chain.num_chunks > 1,
        )

    # -- what can be wrong before anything is built -----------------------------------------------------

    def _check(self) -> None:
        problems = check_mesh(self.mesh, self.cluster)
        problems += size_problems(self.mesh, self.model.num_layers)
        problems += subgraph_refusal(self.shards, self.cluster, self.framework)
        rules = [*self._rules(), *(shard.rule for shard in self.shards)]
        problems += unused_axes(self.mesh, self.roles, rules)
        problems += unknown_axes(self.parallel, self.mesh)
        if self.parallel.gradients_mean is not None and self.task.batch_shares:
            problems.append(
                Problem(
                    "ranks with unequal shares of the batch have no mean of the same number of samples",
                    "parallel.gradients_mean",
                    "leave it out: then gradients are those of the mean over the whole batch",
                )
            )
        refusal = self.model.refuses(self.task.seq_len)
        if refusal:
            problems.append(Problem(refusal, "inference.prompt" if self.inference else "training.seq_len"))
        if self.inference and (refusal := generation_refusal(self.model)):
            problems.append(Problem(refusal, "model"))
        if problems:
            raise PlanError(*problems)

    # -- decisions --------------------------------------------------------------------------------------

    def _rules(self) -> list[StrategyRule]:
        """All rules by precedence: later entries before earlier ones, the user's before the recipe's."""
        own = [
            each.rule("scenario", f"parallel.strategies.{index}")
            for index, each in enumerate(self.parallel.strategies)
        ]
        name = self._recipe()
        shipped = [each.rule(f"recipe {name}") for each in RecipeSpec.load(name).strategies]
        return own[::-1] + shipped[::-1]

    @property
    def inference(self) -> InferenceSpec | None:
        """What is generated, if nothing is trained."""
        return self.task if isinstance(self.task, InferenceSpec) else None

    def _recipe(self) -> str:
        """The recipe that is used: the one that is named, or the usual one for the mesh."""
        if self.parallel.recipe is not None:
            return self.parallel.recipe
        chosen = self.parallel.mode == "semi_auto" and not (self.parallel.propagate or self.shards)
        tensor = chosen and "tensor" in unsplit_mesh(self.mesh).sizes
        return self.model.tensor_recipe if tensor else "data"

    def _stages(self) -> tuple[str, int]:
        axes = self.roles.axes[PIPELINE]
        if len(axes) != 1:
            raise PlanError("one axis carries the pipeline", path="parallel.roles.pipeline")
        return axes[0], self.mesh.size(axes[0])

    def _layers(self, chain: VirtualStages) -> tuple[int, ...]:
        """Layers of each virtual stage."""
        given = self.parallel.schedule.stages
        if given == "auto":
            return default_layers(self.model.num_layers, len(chain))
        return written_layers(given, chain)

    def _padded(self, rules: Sequence[StrategyRule]) -> Model:
        """The model with a vocabulary that every rank which shares it holds an equal part of."""
        model = self.model
        if not isinstance(model, WithVocabulary):
            return model

        def unpadded() -> Graph:
            return self.model.graph(1, self.task.seq_len, DType.FP32, 1)

        operators = model.vocabulary_operators
        ways = vocabulary_divisor_of(operators, unpadded, rules, self.mesh, self.roles)
        return model.padded(self.framework.vocabulary_multiple * ways)

    def _graphs(self) -> GraphLaunch:
        """How pieces run that are graphs."""
        said = self.framework.graphs
        return GraphLaunch(said.launch, self.framework.prefetch if said.prefetch is None else said.prefetch)

    def _sharding(self) -> ShardingChoice:
        """What lies sharded: as the scenario says, or else the recipe."""
        written = self.parallel.optimizer_sharding
        if self.inference:
            return ShardingChoice()
        if written is None:
            written = RecipeSpec.load(self._recipe()).optimizer_sharding
        return mesh_sharding(written, self.roles, self.mesh, self.stage_axis)
