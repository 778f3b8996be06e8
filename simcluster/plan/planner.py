"""The planner of all modes but ``manual``: from model, cluster and strategies to a Plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from simcluster.errors import PlanError, Problem
from simcluster.layout import Layout, Mesh, whole
from simcluster.model import (
    Generative,
    Graph,
    Model,
    WithVocabulary,
    generation_refusal,
    vocabulary_of,
)
from simcluster.plan.data import check_inputs, check_shares, check_unequal_batches
from simcluster.plan.diagnostics import (
    axis_order_note,
    balance_hints,
    check_tensors,
    padding_notes,
    plan_notes_of,
    propagation_notes,
    settings_without_effect,
    size_problems,
)
from simcluster.plan.offload import check_hosts, report_not_offloaded
from simcluster.plan.optimizer import (
    OptimizerPlan,
    check_owners,
    matrices_of,
    report_dense_updates,
    sparse_parameters,
)
from simcluster.plan.overlap import (
    describe_chunked_collectives,
    describe_interleaving,
)
from simcluster.plan.parameter_server import check_whole_workers, serve_parameters, server_problems
from simcluster.plan.pass_list import PassList
from simcluster.plan.passes import (
    Passes,
    derivative_passes,
    fine_tuning_passes,
    place_layers,
    sequence_passes,
    sequence_slicing,
    sharding_pass,
    sparse_gradients,
    subgraph_assignment,
    vocabulary_spreading,
)
from simcluster.plan.pipeline import check_sharing
from simcluster.plan.plan import PipelinePlan, Placement, Plan
from simcluster.plan.plan_values import PlanValues
from simcluster.plan.precision import Numerics
from simcluster.plan.redistribution import RedistributionPlanner, kernel_cost, movement_cost
from simcluster.plan.rules import (
    SEQUENCE,
    AxisRoles,
    StrategyRule,
    stage_devices,
)
from simcluster.plan.sequence import check_slices, slice_length
from simcluster.plan.sharded_model import ShardedModel, ShardedModels
from simcluster.plan.sharding import propagate
from simcluster.plan.spec import (
    ShardingChoice,
    explicit_sharding,
    sharding_sub_axes,
    unused_fusion,
)
from simcluster.plan.strategies import (
    CONTEXT,
    Strategies,
    assign_strategies,
    check_mesh,
    roles_of,
    split_mesh_axes,
    unknown_axes,
    unused_axes,
    unused_roles,
)
from simcluster.plan.subgraphs import (
    BlockSubgraphs,
    assign_subgraphs,
    boundary_sub_axes,
    describe_subgraphs,
    find_boundary_constraints,
    subgraph_refusal,
)
from simcluster.plan.switches import SavedActivations


class StrategyPlanner(PlanValues):
    """Plans a model by strategies of its operators."""

    def plan(self, known: ShardedModels | None = None) -> Plan:
        """The plan: its frozen values, made one from another, and the graph that the passes give.

        ``known`` keeps sharded models, for plans that differ in recomputation, optimizer sharding and offload
        alone.
        """
        roles = AxisRoles(roles_of(self.parallel))
        mesh = Mesh.of(self.parallel.sizes).with_off_axes(self.parallel.num_server_ranks)
        self._check(mesh, roles)
        placement = Placement.of(mesh, roles)
        pipeline = self._pipeline(placement)
        sharding = self._sharding(placement)
        numerics = self._numerics(sharding)
        check_inputs(self.inputs, self.cluster)
        offload = self.parallel.offload.build().on(self.cluster)
        sub_axes = tuple(sharding_sub_axes(sharding, mesh, placement.stage_axis))
        key = numerics, sub_axes, sharding if pipeline.slices > 1 else None
        known = {} if known is None else known
        if key not in known:
            known[key] = self._sharded(placement, pipeline, numerics, sharding)
        sharded = known[key]
        placement, sharder, logical = sharded.placement, sharded.sharder, sharded.logical
        mesh = placement.mesh
        check_shares(pipeline.batches, mesh)
        sharding = self._sharding(placement)
        optimizer = self._optimizer(numerics, sharding, placement.batch_axes)
        if optimizer is not None and optimizer.needs_matrices:
            matrices = matrices_of(sharded.forward, sharded.passes.graph, mesh)
            optimizer = replace(optimizer, matrices=matrices)
        if sharding.by_parameter:
            check_owners(
                sharding.axes,
                mesh,
                uneven=len(pipeline.batches.counts) > 1 or not self.task.routing.build().uniform,
                moved=not offload.rules.keys().isdisjoint(("optimizer_states", "parameters"))
                or bool(self.parallel.host),
                servers=self.parallel.parameter_server is not None,
                rows=bool(sparse_parameters(logical)),
            )
        passes = Passes(
            placement=placement,
            pipeline=pipeline,
            numerics=numerics,
            sharder=sharder,
            router=sharded.router,
            framework=self.framework,
            optimizer=optimizer,
            parallel=self.parallel,
            offload=offload,
        )
        done = sharded.passes.then(*passes.after_sharding())
        check_hosts(done.graph, self.cluster)
        check_unequal_batches(done.graph, pipeline.batches, gathered_once=sharding.gather_once)
        plan = Plan(
            passes=done,
            logical=logical,
            placement=placement,
            pipeline=pipeline,
            numerics=numerics,
            strategies=sharded.strategies,
            optimizer=optimizer,
            sharding=sharding,
            execution=self._execution(logical, done.graph, placement, sharding),
            recompute=self.parallel.recompute,
            offload=offload,
            routing=self.task.routing.build(),
            pieces=sharded.subgraphs,
            recipe=self._recipe(mesh),
            vocab=vocabulary_of(sharded.model),
            servers=serve_parameters(done.graph, self.parallel.parameter_server, optimizer, mesh),
        )
        check_whole_workers(done.graph, plan.servers, mesh)
        return replace(plan, notes=tuple(self._notes(plan, sharded.forward, sharder)))

    def _sharded(
        self, placement: Placement, pipeline: PipelinePlan, numerics: Numerics, sharding: ShardingChoice
    ) -> ShardedModel:
        """The model, differentiated and with layouts."""
        model = self._model(placement)
        forward, subgraphs = self._forward_on_stages(model, placement, pipeline, numerics)
        placement = self._split_mesh(forward.graph, subgraphs, placement, sharding)
        sharding = self._sharding(placement)
        mesh = placement.mesh
        cost, pads = movement_cost(self.cluster, mesh, self.algorithms), self.parallel.pads
        how = self.parallel.redistribution
        router = RedistributionPlanner(mesh, cost, pads=pads)
        as_read = self.framework.saved_activations is SavedActivations.AS_READ
        sharder = RedistributionPlanner(mesh, cost, how.infers, how.exchanges, pads, as_read)
        strategies = self._strategies(forward.graph, subgraphs, placement, sharder)
        check_slices(pipeline.slices, forward.graph, sharding, pieces=bool(subgraphs))
        optimizer = self._optimizer(numerics, sharding, placement.batch_axes)
        slicing = [sequence_slicing(pipeline.slices)] if pipeline.slices > 1 else []
        sliced = self._differentiated(forward.then(*slicing), pipeline, numerics, optimizer)
        logical = sliced.graph
        if slicing:
            # What one device computes knows of no slices.
            unsliced = self._forward(model, self.task.seq_len, placement, pipeline, numerics)
            unsliced = unsliced.then(place_layers(pipeline.layers, pipeline.chain))
            logical = self._differentiated(unsliced, pipeline, numerics, optimizer).graph
        feeds = self._feeds(logical, placement)
        layouts = sharding_pass(strategies, mesh, sharder, feeds, self.framework.passes, placement.stage_axis)
        return ShardedModel(
            model=model,
            placement=placement,
            forward=forward.graph,
            subgraphs=subgraphs,
            strategies=strategies,
            sharder=sharder,
            router=router,
            logical=logical,
            passes=sliced.then(layouts),
        )

    def _forward_on_stages(
        self,
        model: Model,
        placement: Placement,
        pipeline: PipelinePlan,
        numerics: Numerics,
    ) -> tuple[PassList, BlockSubgraphs]:
        """The forward graph of a micro-batch of all ranks on its stages, and what of it runs as graphs."""
        length = slice_length(self.task.seq_len, pipeline.slices)
        forward = self._forward(model, length, placement, pipeline, numerics)
        forward = forward.then(place_layers(pipeline.layers * pipeline.num_passes, pipeline.chain))
        if method := self.parallel.schedule.vocabulary:
            check_sharing(pipeline.chain.num_stages, trained=self.inference is None)
            operators = model.vocabulary_operators if isinstance(model, WithVocabulary) else ()
            parts = pipeline.chain.num_stages * self._vocabulary_ways(placement)
            forward = forward.then(vocabulary_spreading(operators, method, parts))
        shards = self._shards()
        subgraphs = assign_subgraphs(forward.graph, shards)[1]
        return forward.then(subgraph_assignment(shards)) if shards else forward, subgraphs

    def _split_mesh(
        self,
        placed: Graph,
        subgraphs: BlockSubgraphs,
        placement: Placement,
        sharding: ShardingChoice,
    ) -> Placement:
        """The mesh, its axes split as strategies, inputs and sharding need them."""
        mesh, stage_axis = placement.mesh, placement.stage_axis
        others = list(boundary_sub_axes(placed, subgraphs, mesh, placement.roles))
        if self.inputs is not None:
            others += self.inputs.digits(placed, stage_devices(mesh, placement.roles))
        others += sharding_sub_axes(sharding, mesh, stage_axis)
        rules = self._rules(mesh)
        return Placement.of(*split_mesh_axes(placed, rules, mesh, placement.roles, stage_axis, others))

    def _forward(
        self,
        model: Model,
        length: int,
        placement: Placement,
        pipeline: PipelinePlan,
        numerics: Numerics,
    ) -> PassList:
        """What one device computes forward on sequences of this length, in the order and the turns that they
        are split in.
        """
        ways = placement.batch_ways
        batch = pipeline.micro_batch * ways
        if pipeline.generation:
            assert isinstance(model, Generative), "others are refused"
            known = vocabulary_of(self.model)
            passes = model.generating(batch, numerics.compute, pipeline.generation, known)
            check_tensors(passes)
            return PassList.of(passes)
        counted = self.parallel.tokens_counted(self.task.global_batch * self.task.seq_len, ways)
        forward = model.graph(batch, length, numerics.compute, counted)
        slices = placement.roles.resolve((SEQUENCE,), placement.mesh)
        masked = self.parallel.context == "ring_masked"
        ring = masked or self.parallel.context == "ring"
        if ring and not slices:
            hint = f"name an axis {CONTEXT}, or say parallel.roles.{SEQUENCE}"
            raise PlanError("no axis of the mesh splits sequences", path="parallel.context", hint=hint)
        axis = slices[0] if slices else ""
        made = PassList.of(forward).then(
            *fine_tuning_passes(self.task),
            *sequence_passes(ways, placement.mesh.product(slices), axis, ring=ring, masked=masked),
        )
        check_tensors(made.graph)
        return made

    def _strategies(
        self,
        placed: Graph,
        subgraphs: BlockSubgraphs,
        placement: Placement,
        sharder: RedistributionPlanner,
    ) -> Strategies:
        """How operators are split."""
        mesh, pads = placement.mesh, self.parallel.pads
        written = assign_strategies(placed, self._rules(mesh), mesh, placement.roles, pads=pads)
        written = written.over_stages(placed, placement.stage_axis)
        if not (self.parallel.propagate or subgraphs):
            return written
        fixed = None
        if subgraphs:
            fixed = find_boundary_constraints(placed, subgraphs, written, mesh, placement.roles, pads=pads)
        return propagate(placed, written, mesh, placement.roles, sharder, kernel_cost(self.cluster), fixed)

    def _feeds(self, logical: Graph, placement: Placement) -> Mapping[str, Layout]:
        """The layouts of inputs that come in one of their own."""
        if self.inputs is None:
            return {}
        mesh, stage_axis = placement.mesh, placement.stage_axis
        return self.inputs.layouts(logical, mesh, stage_axis, placement.roles.cut, pads=self.parallel.pads)

    def _differentiated(
        self,
        forward: PassList,
        pipeline: PipelinePlan,
        numerics: Numerics,
        optimizer: OptimizerPlan | None,
    ) -> PassList:
        """The graph with its backward pass, if it is trained; PlanError if its gradients cannot be used."""
        if optimizer is None:
            return forward
        sparse = sparse_gradients(optimizer.rules, pipeline.num_terms, optimizer.served_by_rows)
        logical = forward.then(*derivative_passes(numerics), sparse)
        if optimizer.clip is not None and (rows := sparse_parameters(logical.graph)):
            raise PlanError(
                f"the gradient of '{rows[0]}' is ids and rows, of which no norm is taken",
                path="training.optimizer.clip",
                hint="leave it out, or use a rule that changes whole parameters",
            )
        return logical

    def _notes(self, plan: Plan, placed: Graph, sharder: RedistributionPlanner) -> Iterator[str]:
        """What the user should be told."""
        graph, mesh, pipeline, roles = plan.graph, plan.mesh, plan.pipeline, plan.placement.roles
        yield from self.model.remarks(self.task.seq_len)
        yield from plan_notes_of(
            self.parallel,
            plan.recipe,
            plan.strategies,
            plan.sharding,
            mesh,
            roles,
            self.algorithms,
            (vocabulary_of(self.model), plan.vocab),
        )
        if method := self.parallel.schedule.vocabulary:
            count = pipeline.chain.num_stages
            yield f"the embedding and the output layer are split over all {count} stages ({method})"
        yield from report_dense_updates(plan.logical, plan.update) if plan.update else ()
        note = describe_interleaving(
            self.parallel.copies, pipeline.micro_batch, self.framework, plan.sharding
        )
        yield from [note] if note else []
        yield from describe_chunked_collectives(self.parallel.overlap, graph)
        yield from describe_subgraphs(placed, plan.pieces)
        yield from propagation_notes(plan.strategies, graph, sharder)
        yield from padding_notes(placed, plan.strategies, mesh) if self.parallel.pads else ()
        yield from plan.offload.remarks(pipeline.num_terms)
        yield from report_not_offloaded(graph, plan.offload, mesh)
        yield from settings_without_effect(self.parallel, graph, plan.sharding)
        yield from unused_fusion(self.parallel.fused, graph, plan.sharding)
        yield from axis_order_note(graph, mesh, roles, self.cluster, self.algorithms, pipeline.num_terms)
        yield from balance_hints(
            self.cluster,
            mesh,
            plan.numerics.matmul,
            pipeline.layers,
            plan.stage_axis,
            [axis for axis in plan.placement.batch_axes if axis == whole(axis)],
            shared=bool(self.task.batch_shares),
            staged=self.parallel.schedule.stages != "auto" or pipeline.chain.num_chunks > 1,
        )

    def _check(self, mesh: Mesh, roles: AxisRoles) -> None:
        shards = self._shards()
        problems = check_mesh(mesh, self.cluster)
        problems += size_problems(mesh, self.model.num_layers)
        problems += subgraph_refusal(shards, self.cluster, self.framework)
        rules = [*self._rules(mesh), *(shard.rule for shard in shards)]
        problems += self._unused_axes(mesh, roles, rules)
        problems += unknown_axes(self.parallel, mesh)
        named = {name for rule in rules for name in rule.names}
        named.update(explicit_sharding(self.parallel.optimizer_sharding, ()).axes)
        problems += unused_roles(self.parallel, named)
        if self.parallel.gradients_mean is not None and self.task.batch_shares:
            problems.append(
                Problem(
                    "ranks with unequal shares of the batch have no mean of the same number of samples",
                    "parallel.gradients_mean",
                    "leave it out: then gradients are those of the mean over the whole batch",
                )
            )
        refusal = self.model.seq_len_error(self.task.seq_len)
        if refusal:
            problems.append(Problem(refusal, "inference.prompt" if self.inference else "training.seq_len"))
        if self.inference and (refusal := generation_refusal(self.model)):
            problems.append(Problem(refusal, "model"))
        if self.parallel.parameter_server:
            sharding = self._sharding(Placement.of(mesh, roles))
            problems += server_problems(self.parallel, self.task, mesh, roles, sharding, self.cluster)
        if problems:
            raise PlanError(*problems)

    def _unused_axes(self, mesh: Mesh, roles: AxisRoles, rules: Sequence[StrategyRule]) -> list[Problem]:
        """Problems of axes that nothing uses; none in mode auto, where a search decides on all of them."""
        return unused_axes(mesh, roles, rules)
