"""A Plan: the sharded graph of one micro-batch with phases, its timetable, and what was decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from simcluster.cluster import Cluster, Dispatch
from simcluster.collectives import AUTOMATIC, Selection
from simcluster.errors import PlanError, Problem, nearest
from simcluster.layout import Mesh, uncut, whole
from simcluster.model import Graph, Model
from simcluster.model.operators.optimizer import Update
from simcluster.plan.batches import Batches, batches, check_meetings, check_shares
from simcluster.plan.borders import digits, pins
from simcluster.plan.chain import Chain
from simcluster.plan.conduct import Conduct
from simcluster.plan.costs import kernel_cost, movement_cost
from simcluster.plan.cut_axes import cut_axes
from simcluster.plan.formats import Formats, states_of, update_of
from simcluster.plan.fusion import idle, used_by
from simcluster.plan.fusion_ids import fusion_ids
from simcluster.plan.hints import hints
from simcluster.plan.in_order import in_order, in_turns
from simcluster.plan.inputs import Inputs, check_inputs
from simcluster.plan.limits import check_passes, check_rates, check_tensors, too_large
from simcluster.plan.notes import followed, notes, padded, without_effect
from simcluster.plan.optimize import OptimizerPlan
from simcluster.plan.passes import Passes, differentiated
from simcluster.plan.piece import Graphs, Pieces, marked, pieces_told, unlaunchable
from simcluster.plan.place import default_layers, place, written_layers
from simcluster.plan.propagate import propagate
from simcluster.plan.recompute_spec import RecomputeSpec
from simcluster.plan.redistribute import Router
from simcluster.plan.rule import BATCH, PIPELINE, SEQUENCE, Roles, Rule, stage_devices
from simcluster.plan.schedule import Timetable, splits
from simcluster.plan.sharding import Sharding, chosen, groups
from simcluster.plan.spec import (
    FrameworkSpec,
    ParallelSpec,
    RecipeSpec,
    TrainingSpec,
)
from simcluster.plan.statistics import with_statistics
from simcluster.plan.strategies import Strategies, assign
from simcluster.plan.vocabulary import vocabulary_ways
from simcluster.work import DType

CONTEXT = "context"
"""The axis that usually splits sequences."""
EXPERTS, EXPERT = "experts", "expert"
"""The role of axes that share the experts of a mixture, and the axis that usually has it."""


@dataclass(frozen=True)
class Plan:
    """Everything a Program is made of.

    ``logical`` is the differentiated graph before sharding: what one device would compute. ``compute`` is the
    format of activations, ``matmul`` the one in which matrix units multiply. ``chunks`` are the layers of
    each chunk and stage, ``chain`` the order of these, ``timetables`` what the stages do, for each number of
    micro-batches that ``batches`` counts, ``vocab`` the padded vocabulary, ``notes`` what the user should be
    told, ``algorithms`` those of collectives that the scenario names; ``call`` is the host's seconds for each
    call of collectives, of which ``reuse`` that are alike are one; ``recompute`` says what is computed again,
    ``inputs`` how ranks get their parts of the batch, if that takes anything, ``attention`` the release of
    the fused attention kernel, if an earlier one. ``pieces`` of blocks are graphs, which run as ``graphs``
    says. ``assigned`` is the part of a hand-written program that each rank runs.
    """

    graph: Graph
    logical: Graph
    mesh: Mesh
    stage_axis: str
    timetables: tuple[Timetable, ...]
    strategies: Strategies
    update: Update
    batches: Batches
    micro_batch: int
    batch_axes: tuple[str, ...]
    chain: Chain
    chunks: tuple[tuple[int, ...], ...]
    vocab: int
    overlapped: bool
    prefetch: int
    dispatch: Dispatch
    graphs: Graphs
    conduct: Conduct
    compute: DType
    gradients: DType
    master: DType | None
    sharding: Sharding
    recipe: str
    notes: tuple[str, ...]
    matmul: DType
    states: Mapping[str, DType]
    clip: float | None
    algorithms: Selection
    call: float
    reuse: int | None
    recompute: RecomputeSpec
    inputs: Inputs | None = None
    pieces: Pieces = field(default_factory=dict)
    attention: int | None = None
    assigned: tuple[int, ...] = ()

    @property
    def timetable(self) -> Timetable:
        """What the stages do; with unequal shares of the batch, those of the first coordinate."""
        return self.timetables[0]

    @property
    def num_micro_batches(self) -> int:
        """Micro-batches per step of a data-parallel rank; with unequal shares the most of any."""
        return self.batches.most

    @property
    def batch_ways(self) -> int:
        """Data-parallel ways: into how many parts a micro-batch is split."""
        return self.mesh.product(self.batch_axes)

    @property
    def num_stages(self) -> int:
        """Pipeline stages."""
        return self.chain.num_stages

    @property
    def layers(self) -> tuple[int, ...]:
        """Layers of each stage, of all its chunks."""
        return tuple(map(sum, zip(*self.chunks, strict=True)))


def layout_plan(
    model: Model,
    training: TrainingSpec,
    parallel: ParallelSpec,
    framework: FrameworkSpec,
    cluster: Cluster,
    algorithms: Selection = AUTOMATIC,
    inputs: Inputs | None = None,
) -> Plan:
    """The plan of a model on a cluster; PlanError if it is impossible, with every reason it can tell."""
    return _Planner(model, training, parallel, framework, cluster, algorithms, inputs).plan()


@dataclass
class _Planner:
    model: Model
    training: TrainingSpec
    parallel: ParallelSpec
    framework: FrameworkSpec
    cluster: Cluster
    algorithms: Selection
    inputs: Inputs | None

    def plan(self) -> Plan:
        """Decides what the passes need to know, and runs them."""
        self.mesh = Mesh.of(self.parallel.mesh)
        self.shards = [each.build(place) for place, each in enumerate(self.parallel.shard)]
        self.roles = Roles(roles_of(self.parallel))
        self._check()
        rules = self._rules()
        stage_axis, num_stages = self._stages()
        schedule = self.parallel.schedule.build()
        chain = schedule.chain(num_stages)
        layers = self._layers(chain)
        batch_axes = self.roles.resolve((BATCH,), self.mesh)
        found = batches(
            self.training.global_batch,
            self.training.micro_batch,
            self.training.batch_shares,
            batch_axes,
            self.mesh,
        )
        check_passes(self.model.num_layers, found.most, swept=False)
        timetables = tuple(schedule.timetable(num_stages, count) for count in found.counts)
        sharding = self._sharding(stage_axis)
        formats = Formats.of(self.training.precision, self.framework, sharding)
        check_rates(self.cluster, formats.compute, formats.matmul)
        check_inputs(self.inputs, self.cluster)
        model = self.model.padded(self._vocabulary_multiple(rules)).computed(
            flash=self.framework.attention != "unfused",
            logits=DType.FP32 if self.framework.logits == "fp32" else None,
        )
        tokens = self.training.global_batch * self.training.seq_len
        ways = self.mesh.product(batch_axes)
        batch = self.training.micro_batch * ways
        counted = self.parallel.tokens_counted(tokens, ways)
        forward = model.graph(batch, self.training.seq_len, formats.compute, counted)
        forward = with_statistics(forward, ways)
        slices = self.roles.resolve((SEQUENCE,), self.mesh)
        forward = in_order(forward, self.mesh.product(slices), f"parallel.mesh.{slices[0] if slices else ''}")
        if self.parallel.context == "ring" and not slices:
            hint = f"name an axis {CONTEXT}, or say parallel.roles.{SEQUENCE}"
            raise PlanError("no axis of the mesh splits sequences", path="parallel.context", hint=hint)
        if self.parallel.context == "ring":
            forward = in_turns(forward, self.mesh.product(slices), "parallel.context")
        check_tensors(forward)
        placed = place(forward, layers, chain)
        placed, pieces = marked(placed, self.shards)
        others = list(digits(placed, pieces, self.mesh, self.roles))
        if self.inputs is not None:
            others += self.inputs.digits(placed, stage_devices(self.mesh, self.roles))
        others += groups(sharding, self.mesh, stage_axis)
        self.mesh, self.roles = cut_axes(placed, rules, self.mesh, self.roles, stage_axis, others)
        batch_axes = self.roles.resolve((BATCH,), self.mesh)
        check_shares(found, self.mesh)
        sharding = self._sharding(stage_axis)
        cost = movement_cost(self.cluster, self.mesh, self.algorithms)
        how = self.parallel.redistribution
        pads = self.parallel.pads
        router = Router(self.mesh, cost, pads=pads)
        sharder = Router(self.mesh, cost, how.infers, how.exchanges, pads)
        strategies = assign(placed, rules, self.mesh, self.roles, pads=pads)
        if self.parallel.propagate or pieces:
            fixed = pins(placed, pieces, strategies, self.mesh, self.roles, pads=pads) if pieces else None
            price = kernel_cost(self.cluster)
            strategies = propagate(placed, strategies, self.mesh, self.roles, sharder, price, fixed)
        update = update_of(self.training.optimizer)
        states = states_of(update, self.training.optimizer)
        optimizer = OptimizerPlan(
            update,
            formats.master,
            states,
            sharding,
            self.framework.main_gradients,
            self.framework.reduction.copies,
            self.parallel.recompute.gathers,
        )
        limit = self.training.optimizer.clip
        fusion = self.parallel.fused
        logical = differentiated(placed, formats)
        ids = fusion_ids(fusion.ids, [name for name, _ in logical.parameters()])
        passes = Passes(
            mesh=self.mesh,
            stage_axis=stage_axis,
            strategies=strategies,
            sharder=sharder,
            router=router,
            formats=formats,
            framework=self.framework,
            optimizer=optimizer,
            recompute=self.parallel.recompute,
            limit=limit,
            feeds=self.inputs.layouts(logical, self.mesh, stage_axis, self.roles.cut, pads=pads)
            if self.inputs
            else {},
            alike=tuple(axis for axis in self.mesh.names if axis not in (*batch_axes, stage_axis)),
            apart=fusion.closed,
            split=any(map(splits, timetables)),
        )
        graph = passes.run(logical)
        check_meetings(graph, found, gathered_once=sharding.gather_once)
        return Plan(
            graph=graph,
            logical=logical,
            mesh=self.mesh,
            stage_axis=stage_axis,
            timetables=timetables,
            strategies=strategies,
            update=update,
            batches=found,
            micro_batch=self.training.micro_batch,
            batch_axes=batch_axes,
            chain=chain,
            chunks=chain.by_chunk(layers),
            vocab=model.vocabulary,
            overlapped=self.parallel.schedule.overlapped(self.framework, chain),
            prefetch=self.framework.prefetch,
            dispatch=self.framework.host,
            graphs=self._graphs(),
            conduct=Conduct.of(
                self.framework,
                sharding,
                self.mesh,
                batch_axes,
                stage_axis,
                fusion.only(used_by(graph)),
                ids,
            ),
            compute=formats.compute,
            gradients=formats.gradients,
            master=formats.master,
            sharding=sharding,
            recipe=self._recipe(),
            notes=(
                *self.model.remarks(self.training.seq_len),
                *notes(
                    self.parallel,
                    self._recipe(),
                    strategies,
                    sharding,
                    self.mesh,
                    self.roles,
                    self.algorithms,
                    (self.model.vocabulary, model.vocabulary),
                ),
                *pieces_told(placed, pieces),
                *followed(strategies, graph, sharder),
                *(padded(placed, strategies, self.mesh) if pads else ()),
                *without_effect(self.parallel.recompute, graph, sharding),
                *idle(fusion, graph, sharding),
                *hints(
                    self.cluster,
                    self.mesh,
                    formats.matmul,
                    layers,
                    stage_axis,
                    [axis for axis in batch_axes if axis == whole(axis)],
                    shared=bool(self.training.batch_shares),
                    staged=self.parallel.schedule.stages != "auto" or chain.num_chunks > 1,
                ),
            ),
            matmul=formats.matmul,
            states=states,
            clip=limit,
            algorithms=self.algorithms,
            call=float(self.framework.collective_call or 0.0),
            reuse=self.parallel.reuse,
            recompute=self.parallel.recompute,
            inputs=self.inputs,
            pieces=pieces,
            attention=self.framework.attention_release,
        )

    # -- what can be wrong before anything is built -----------------------------------------------------

    def _check(self) -> None:
        problems = check_mesh(self.mesh, self.cluster)
        problems += too_large(self.mesh, self.model.num_layers)
        problems += unlaunchable(self.shards, self.cluster, self.framework)
        problems += self._unused_axes()
        for role, axes in self.parallel.roles.items():
            for axis in (axes,) if isinstance(axes, str) else axes:
                if axis not in uncut(self.mesh).sizes:
                    problems.append(
                        Problem(
                            f"the mesh has no axis '{axis}'",
                            f"parallel.roles.{role}",
                            nearest(axis, self.mesh.names),
                        )
                    )
        if self.parallel.gradients_mean is not None and self.training.batch_shares:
            problems.append(
                Problem(
                    "ranks with unequal shares of the batch have no mean of the same number of samples",
                    "parallel.gradients_mean",
                    "leave it out: then gradients are those of the mean over the whole batch",
                )
            )
        refusal = self.model.refuses(self.training.seq_len)
        if refusal:
            problems.append(Problem(refusal, "training.seq_len"))
        if problems:
            raise PlanError(*problems)

    def _unused_axes(self) -> list[Problem]:
        """Axes that no role and no rule names would only repeat the same work."""
        named = {axis for axes in self.roles.axes.values() for axis in axes}
        rules = [*self._rules(), *(shard.rule for shard in self.shards)]
        if any(rule.numbered for rule in rules):
            return []
        # A role is not the axis of its name: its own axes are named already.
        names = {axis for rule in rules for axis in rule.names} - set(self.roles.axes)
        named.update(map(whole, names))
        return [
            Problem(
                f"no role and no strategy uses axis '{axis}': its {size} ranks would repeat others' work",
                f"parallel.mesh.{axis}",
                nearest(axis, named),
            )
            for axis, size in self.mesh.axes
            if whole(axis) not in named and size > 1
        ]

    # -- decisions --------------------------------------------------------------------------------------

    def _rules(self) -> list[Rule]:
        """All rules by precedence: later entries before earlier ones, the user's before the recipe's."""
        own = [
            each.rule("scenario", f"parallel.strategies.{index}")
            for index, each in enumerate(self.parallel.strategies)
        ]
        name = self._recipe()
        shipped = [each.rule(f"recipe {name}") for each in RecipeSpec.load(name).strategies]
        return own[::-1] + shipped[::-1]

    def _recipe(self) -> str:
        """The recipe that is used: the one that is named, or the usual one for the mesh."""
        if self.parallel.recipe is not None:
            return self.parallel.recipe
        chosen = self.parallel.mode == "semi_auto" and not (self.parallel.propagate or self.shards)
        tensor = chosen and "tensor" in uncut(self.mesh).sizes
        return "megatron" if tensor else "data"

    def _stages(self) -> tuple[str, int]:
        axes = self.roles.axes[PIPELINE]
        if len(axes) != 1:
            raise PlanError("one axis carries the pipeline", path="parallel.roles.pipeline")
        return axes[0], self.mesh.size(axes[0])

    def _layers(self, chain: Chain) -> tuple[int, ...]:
        """Layers of each virtual stage."""
        given = self.parallel.schedule.stages
        if given == "auto":
            return default_layers(self.model.num_layers, len(chain))
        return written_layers(given, chain)

    def _vocabulary_multiple(self, rules: Sequence[Rule]) -> int:
        def unpadded() -> Graph:
            return self.model.graph(1, self.training.seq_len, DType.FP32, 1)

        ways = vocabulary_ways(unpadded, rules, self.mesh, self.roles)
        return self.framework.vocabulary_multiple * ways

    def _graphs(self) -> Graphs:
        """How pieces run that are graphs."""
        said = self.framework.graphs
        return Graphs(said.launch, self.framework.prefetch if said.prefetch is None else said.prefetch)

    def _sharding(self, stage_axis: str) -> Sharding:
        """What lies sharded: as the scenario says, or else the recipe."""
        written = self.parallel.optimizer_sharding
        if written is None:
            written = RecipeSpec.load(self._recipe()).optimizer_sharding
        return chosen(written, self.roles, self.mesh, stage_axis)


def check_mesh(mesh: Mesh, cluster: Cluster) -> list[Problem]:
    """What is wrong with a mesh that has another number of ranks than there are devices."""
    devices = cluster.num_devices
    if mesh.num_ranks == devices:
        return []
    shown = " x ".join(f"{name} {size}" for name, size in mesh.axes) or "an empty mesh"
    owner = "the cluster has" if cluster.whole is None else "its hosts have"
    message = f"{shown} = {mesh.num_ranks}, but {owner} {devices} devices"
    return [Problem(message, "parallel.mesh", f"{_hosts(cluster)} = {devices}")]


def _hosts(cluster: Cluster) -> str:
    """``2 hosts x 8 devices``, and so on for every group."""
    return " + ".join(
        f"{group.num_hosts} hosts x {group.host.num_devices} devices" for group in cluster.groups
    )


def roles_of(parallel: ParallelSpec) -> dict[str, tuple[str, ...]]:
    """The default roles with what the scenario says instead."""
    given = {role: (axes,) if isinstance(axes, str) else axes for role, axes in parallel.roles.items()}
    usual = {BATCH: ("data", EXPERT), PIPELINE: (PIPELINE,), EXPERTS: (EXPERT,), SEQUENCE: (CONTEXT,)}
    return {**usual, **given}
