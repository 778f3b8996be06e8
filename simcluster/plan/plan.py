"""A Plan: the sharded graph of one micro-batch with phases, its timetable, and what was decided."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from simcluster.cluster import Cluster
from simcluster.document.pattern import matches
from simcluster.errors import PlanError, Problem, nearest
from simcluster.layout import Mesh
from simcluster.model import Graph, Model
from simcluster.model.operators.lamb import Lamb
from simcluster.model.operators.optimizer import Adam, AdamW, Momentum, Sgd, Update
from simcluster.plan.accumulate import ALL, accumulate
from simcluster.plan.cast import cast_again, cast_weights
from simcluster.plan.clip import clip
from simcluster.plan.conduct import Conduct
from simcluster.plan.copies import once_per_step, per_use, repeated
from simcluster.plan.costs import movement_cost
from simcluster.plan.decompose import decompose_updates
from simcluster.plan.differentiate import differentiate
from simcluster.plan.fuse import fuse
from simcluster.plan.limits import check_passes, check_rates, check_tensors, too_large
from simcluster.plan.optimize import OptimizerPlan, optimize
from simcluster.plan.place import LAYERS, default_layers, place
from simcluster.plan.quantise import Fp8Plan, quantise
from simcluster.plan.recompute import recompute
from simcluster.plan.redistribute import Router
from simcluster.plan.schedule import Timetable
from simcluster.plan.selective import recompute_operators
from simcluster.plan.shard import shard
from simcluster.plan.sharding import Sharding, chosen, expanded
from simcluster.plan.spec import (
    Fp8Spec,
    FrameworkSpec,
    OptimizerSpec,
    ParallelSpec,
    RecipeSpec,
    TrainingSpec,
    schedules,
)
from simcluster.plan.strategies import BATCH, Roles, Rule, Strategies, assign
from simcluster.work import DType

PIPELINE = "pipeline"

_UPDATES: dict[str, type[Update]] = {update.kind: update for update in (Sgd, Momentum, Adam, AdamW, Lamb)}
_VOCABULARY = ("embedding.tokens", "head.logits")


@dataclass(frozen=True)
class Plan:
    """Everything a Program is made of.

    ``logical`` is the differentiated graph before sharding: what one device would compute. ``compute`` is the
    format of activations, ``matmul`` the one in which matrix units multiply. ``layers`` are
    the layers of each stage, ``vocab`` the padded vocabulary, ``notes`` what the user should be told.
    """

    graph: Graph
    logical: Graph
    mesh: Mesh
    stage_axis: str
    timetable: Timetable
    strategies: Strategies
    update: Update
    num_micro_batches: int
    batch_axes: tuple[str, ...]
    layers: tuple[int, ...]
    vocab: int
    overlapped: bool
    prefetch: int
    dispatch: float
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

    @property
    def batch_ways(self) -> int:
        """Data-parallel ways: into how many parts a micro-batch is split."""
        return self.mesh.product(self.batch_axes)

    @property
    def num_stages(self) -> int:
        """Pipeline stages."""
        return len(self.layers)


def make_plan(
    model: Model,
    training: TrainingSpec,
    parallel: ParallelSpec,
    framework: FrameworkSpec,
    cluster: Cluster,
) -> Plan:
    """The plan of a model on a cluster; PlanError if it is impossible, with every reason it can tell."""
    return _Planner(model, training, parallel, framework, cluster).plan()


@dataclass
class _Planner:
    model: Model
    training: TrainingSpec
    parallel: ParallelSpec
    framework: FrameworkSpec
    cluster: Cluster

    def plan(self) -> Plan:
        """Places, differentiates, shards, recomputes, optimises, fuses and schedules, in that order."""
        self.mesh = Mesh.of(self.parallel.mesh)
        self.roles = Roles(_roles(self.parallel))
        self._check()
        rules = self._rules()
        stage_axis, num_stages = self._stages()
        layers = self._layers(num_stages)
        batch_axes = self.roles.resolve((BATCH,), self.mesh)
        micro_batches = self._micro_batches(batch_axes)
        check_passes(self.model.num_layers, micro_batches)
        sharding = self._sharding(stage_axis)
        compute, gradients, master, cast = self._precision(sharding)
        matmul = DType.of(self.training.precision.multiplied)
        check_rates(self.cluster, compute, matmul)
        model = self.model.padded(self._vocabulary_multiple(rules)).computed(
            flash=self.framework.attention == "flash",
            logits=DType.FP32 if self.framework.logits == "fp32" else None,
        )
        tokens = self.training.global_batch * self.training.seq_len
        batch = self.training.micro_batch * self.mesh.product(batch_axes)
        forward = model.graph(batch, self.training.seq_len, compute, tokens)
        check_tensors(forward)
        placed = place(forward, layers)
        strategies = assign(placed, rules, self.mesh, self.roles)
        router = Router(self.mesh, movement_cost(self.cluster, self.mesh))
        update = _update(self.training.optimizer)
        states = _states(update, self.training.optimizer)
        optimizer = OptimizerPlan(
            update,
            master,
            states,
            sharding,
            self.framework.main_gradients,
            self.framework.reduction.copies,
        )

        graph = differentiate(placed, gradients)
        if matmul is DType.FP8:
            graph = quantise(graph, self._fp8())
        logical = graph
        graph = shard(graph, strategies, self.mesh, router)
        graph = repeated(graph)
        if not sharding.weights:
            graph = once_per_step(graph)
        # A gradient that is scattered first is added to its buffer by the scatter.
        graph = accumulate(graph, ALL if sharding.gradients else self.framework.accumulate, compute)
        graph = cast_weights(graph) if cast else graph
        # What is computed again reads weights as the backward does, which gathering them has to know.
        again = self.parallel.recompute
        if again.layers != "none":
            graph = recompute(graph, LAYERS, None if again.layers == "all" else again.layers)
        graph = recompute_operators(graph, again.operators)
        if cast and self.framework.weights == "cast_twice":
            graph = cast_again(graph)
        if sharding.weights:
            graph = per_use(graph)
        graph = optimize(graph, optimizer, self.mesh, router, stage_axis)
        limit = self.training.optimizer.clip
        if limit is not None:
            graph = clip(graph, limit, self.mesh, router, stage_axis)
        graph = decompose_updates(graph, router)
        graph = fuse(graph, self.framework.fuse, together=self.framework.optimizer == "together")
        timetable = schedules()[self.parallel.schedule.kind]().timetable(num_stages, micro_batches)
        return Plan(
            graph,
            logical,
            self.mesh,
            stage_axis,
            timetable,
            strategies,
            update,
            micro_batches,
            batch_axes,
            layers,
            model.vocabulary,
            (self.parallel.schedule.p2p or self.framework.p2p) == "overlapped",
            self.framework.prefetch,
            self.framework.dispatch,
            Conduct.of(self.framework, sharding, self.mesh, batch_axes, stage_axis),
            compute,
            gradients,
            master,
            sharding,
            self._recipe(),
            tuple(self._notes(strategies, sharding, model.vocabulary)),
            matmul,
            states,
            limit,
        )

    # -- what can be wrong before anything is built -----------------------------------------------------

    def _check(self) -> None:
        problems = []
        devices = self.cluster.num_devices
        if self.mesh.num_ranks != devices:
            shown = " x ".join(f"{name} {size}" for name, size in self.mesh.axes) or "an empty mesh"
            problems.append(
                Problem(
                    f"{shown} = {self.mesh.num_ranks}, but the cluster has {devices} devices",
                    "parallel.mesh",
                    f"{self.cluster.num_hosts} hosts x {self.cluster.host.num_devices} devices = {devices}",
                )
            )
        problems += too_large(self.mesh, self.model.num_layers)
        problems += self._unused_axes()
        for role, axes in self.parallel.roles.items():
            for axis in (axes,) if isinstance(axes, str) else axes:
                if axis not in self.mesh.sizes:
                    problems.append(
                        Problem(
                            f"the mesh has no axis '{axis}'",
                            f"parallel.roles.{role}",
                            nearest(axis, self.mesh.names),
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
        for rule in self._rules():
            named.update(axis for split in rule.alternatives for axes in split.values() for axis in axes)
        return [
            Problem(
                f"no role and no strategy uses axis '{axis}': its {size} ranks would repeat others' work",
                f"parallel.mesh.{axis}",
                nearest(axis, named),
            )
            for axis, size in self.mesh.axes
            if axis not in named and size > 1
        ]

    # -- decisions --------------------------------------------------------------------------------------

    def _rules(self) -> list[Rule]:
        """All rules by precedence: later entries before earlier ones, the user's before the recipe's."""
        own = [
            Rule(each.match, each.alternatives(), "scenario", f"parallel.strategies.{index}")
            for index, each in enumerate(self.parallel.strategies)
        ]
        name = self._recipe()
        shipped = [
            Rule(each.match, each.alternatives(), f"recipe {name}")
            for each in RecipeSpec.load(name).strategies
        ]
        return own[::-1] + shipped[::-1]

    def _recipe(self) -> str:
        """The recipe that is used: the one that is named, or the usual one for the mesh."""
        if self.parallel.recipe is not None:
            return self.parallel.recipe
        tensor = self.parallel.mode == "semi_auto" and "tensor" in self.mesh.sizes
        return "megatron" if tensor else "data"

    def _stages(self) -> tuple[str, int]:
        axes = self.roles.axes[PIPELINE]
        if len(axes) != 1:
            raise PlanError("one axis carries the pipeline", path="parallel.roles.pipeline")
        return axes[0], self.mesh.size(axes[0])

    def _layers(self, num_stages: int) -> tuple[int, ...]:
        given = self.parallel.schedule.stages
        if given == "auto":
            return default_layers(self.model.num_layers, num_stages)
        if len(given) != num_stages:
            raise PlanError(
                f"{len(given)} stages are listed, but the mesh has {num_stages}",
                path="parallel.schedule.stages",
            )
        return given

    def _micro_batches(self, batch_axes: Sequence[str]) -> int:
        """Micro-batches per step on every data-parallel rank."""
        ways = self.mesh.product(batch_axes)
        size = self.training.micro_batch * ways
        if self.training.global_batch % size:
            raise PlanError(
                f"global batch {self.training.global_batch} does not divide into micro-batches of "
                f"{self.training.micro_batch} on {ways} data-parallel ranks: {self.training.global_batch} / "
                f"({self.training.micro_batch} x {ways}) = {self.training.global_batch / size:g}",
                path="training.global_batch",
                hint=f"use a multiple of {size}",
            )
        return self.training.global_batch // size

    def _vocabulary_multiple(self, rules: Sequence[Rule]) -> int:
        ways = 1
        for name in _VOCABULARY:
            rule = next((rule for rule in rules if matches(rule.match, name)), None)
            if rule is not None:
                axes = rule.alternatives[0].get("vocab", ())
                ways = math.lcm(ways, self.mesh.product(self.roles.resolve(axes, self.mesh)))
        return self.framework.vocabulary_multiple * ways

    def _precision(self, sharding: Sharding) -> tuple[DType, DType, DType | None, bool]:
        """(compute, gradients, master copy or None, whether whole fp32 weights are cast instead)."""
        written = self.training.precision
        compute = DType.of(written.compute)
        mixed = compute is not DType.FP32
        default = "fp32" if self.framework.gradients_in(written.compute) == "fp32" else written.compute
        gradients = DType.of(written.gradients or default)
        cast = mixed and written.master is None and self.framework.weights != "copied"
        cast = cast and not sharding.weights
        master = written.master or ("fp32" if mixed and not cast else "none")
        return compute, gradients, None if master == "none" else DType.of(master), cast

    def _fp8(self) -> Fp8Plan:
        written = self.training.precision.fp8 or Fp8Spec()
        return Fp8Plan(
            operators=written.operators,
            communicate=written.communication == "fp8",
            keep=written.saved == "fp8",
            transposed=self.framework.fp8_transposes,
        )

    def _sharding(self, stage_axis: str) -> Sharding:
        """What lies sharded: as the scenario says, or else the recipe."""
        written = self.parallel.optimizer_sharding
        if written is None:
            written = RecipeSpec.load(self._recipe()).optimizer_sharding
        return chosen(written, self.roles, self.mesh, stage_axis)

    def _notes(self, strategies: Strategies, sharding: Sharding, vocab: int) -> list[str]:
        notes = []
        written = self.parallel.optimizer_sharding
        if written is None and sharding.states:
            notes.append(f"recipe {self._recipe()} shards {sharding}; optimizer_sharding may say otherwise")
        if expanded(written, ()).states and not sharding.states:
            notes.append("optimizer_sharding shards nothing: no batch axis has more than one rank")
        if vocab != self.model.vocabulary:
            notes.append(f"vocabulary padded from {self.model.vocabulary:,} to {vocab:,}")
        used = {axis for role in (BATCH, PIPELINE) for axis in self.roles.axes[role]}
        rest = [f"{axis} ({size})" for axis, size in self.mesh.axes if axis not in used and size > 1]
        if strategies.unconfigured and rest:
            notes.append(
                f"{strategies.unconfigured:,} operators unconfigured, replicated over {', '.join(rest)}"
            )
        return notes


def _roles(parallel: ParallelSpec) -> dict[str, tuple[str, ...]]:
    """The default roles with what the scenario says instead."""
    given = {role: (axes,) if isinstance(axes, str) else axes for role, axes in parallel.roles.items()}
    return {BATCH: ("data",), PIPELINE: (PIPELINE,), **given}


def _states(update: Update, spec: OptimizerSpec) -> dict[str, DType]:
    """The format of every state, in the optimizer's order; those that are not named are fp32."""
    written = spec.states
    if not update.states and "states" in spec.model_fields_set:
        raise PlanError(
            f"{update.kind} keeps no states", path="training.optimizer.states", hint="leave it out"
        )
    formats = dict.fromkeys(update.states, written) if isinstance(written, str) else dict(written)
    for name in formats:
        if name not in update.states:
            raise PlanError(
                f"{update.kind} keeps no state '{name}'",
                path=f"training.optimizer.states.{name}",
                hint=nearest(name, update.states),
            )
    return {name: DType.of(formats.get(name, "fp32")) for name in update.states}


def _update(spec: OptimizerSpec) -> Update:
    return _UPDATES[spec.kind](
        learning_rate=spec.learning_rate,
        weight_decay=spec.weight_decay,
        momentum=spec.momentum,
        beta1=spec.beta1,
        beta2=spec.beta2,
        eps=spec.eps,
    )
