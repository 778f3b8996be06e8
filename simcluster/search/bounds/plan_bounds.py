"""Lower bounds of the plans of a space: layer costs worked out once for all plans that split layers alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache
from typing import Literal

import numpy as np

from simcluster.cluster import Cluster, Device, placements_of
from simcluster.collectives import Operation, collective_time
from simcluster.errors import SimclusterError
from simcluster.layout import Mesh
from simcluster.model import Routed
from simcluster.plan import (
    BALANCED_ROUTING,
    BATCH,
    SEQUENCE,
    WEIGHTS,
    Numerics,
    Schedule,
    ScheduleSpec,
    ShardingChoice,
    default_layers,
    explicit_sharding,
    make_plan,
    roles_of,
)
from simcluster.program import pipeline_pairs
from simcluster.scenario import Scenario
from simcluster.search.bounds.few_layers import FewLayers
from simcluster.search.bounds.layer_costs import LayerCosts
from simcluster.search.bounds.plan_bound import (
    LeastTimes,
    PlanBound,
    PlanShape,
    balanced_stages,
    bound_plan,
)
from simcluster.search.bounds.share_balance import shares_by_speed
from simcluster.search.bounds.small_plan import SmallPlan
from simcluster.search.space import DATA, PIPELINE, PlanChoice, SpaceSetting
from simcluster.tuning import Changes

IN_HALVES = "zb_h1"
"""A schedule that does backwards in two halves: small plans have it for the costs of such halves."""

_REPLICAS = "replicas"
"""The axis that stands in a small plan where the pipeline stands, if that is not beside the data axis."""

_WHOLE = "{zero: 0}"
"""Nothing is sharded over data-parallel ranks: what a rank holds then is known to be divided by them."""

_SCATTERED = "{zero: 2}"
"""Gradients are sharded."""

Ways = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a plan is impossible."""

    message: str


@dataclass(frozen=True, slots=True)
class _Sharding:
    """What is sharded, and whether the recipe says so, or MindSpore's levels, over all ranks of a stage."""

    choice: ShardingChoice
    by_recipe: bool
    of_mindspore: bool


@dataclass
class PlanBounds:
    """Bounds of plans of one scenario."""

    scenario: Scenario
    micro_batches: tuple[int, ...] = ()
    """The micro-batches that its plans have: the least and the most of many tell what those between cost."""
    allowed: float = math.inf
    """Bytes of a device; the time of plans that need more is not looked at."""
    _small: dict[Changes, SmallPlan | Refusal] = field(default_factory=dict)
    _costs: dict[tuple[Changes, bool], LayerCosts | Refusal] = field(default_factory=dict)
    _shardings: dict[str, _Sharding] = field(default_factory=dict)
    _again: dict[str, str] = field(default_factory=dict)
    _formats: dict[str, Numerics] = field(default_factory=dict)
    _model: list[FewLayers] = field(default_factory=list)

    def of_group(self, choices: Iterable[PlanChoice]) -> PlanBounds:
        """The same for some plans that have a ``group_key`` in common, and nothing of other small plans."""
        micro_batches = sorted({choice.micro_batch for choice in choices})
        return replace(self, micro_batches=tuple(micro_batches), _small={}, _costs={})

    def of(self, choice: PlanChoice) -> PlanBound | Refusal:
        """The bound of a plan, or why it is impossible."""
        try:
            shape = self._shape(choice)
        except SimclusterError as error:
            return Refusal(error.problems[0].message)
        if shape.schedule.num_slices > 1 or not self._is_told_by_small_plans:
            return PlanBound(0, 0)
        costs = self.costs(choice)
        whole = self.costs(replace(choice, optimizer_sharding=_WHOLE))
        if isinstance(costs, Refusal):
            return costs
        if isinstance(whole, Refusal):
            return whole
        costs = replace(costs, parameters=whole.parameters, gradients=whole.gradients, states=whole.states)
        chain = shape.schedule.chain(shape.num_stages)
        times = self._least_times(choice, costs, ring=chain.num_chunks > 1)
        return bound_plan(costs, shape, times, chain, self.allowed)

    def balanced(self, choice: PlanChoice, limit: float) -> PlanChoice | None:
        """The plan with layers balanced over its stages by their time, on the devices that each has.

        No stage needs more than the part ``limit`` of their memory, by what is known of it. None where that
        is no other plan, and for stages of several chunks.
        """
        costs = self.costs(choice)
        if choice.num_stages == 1 or choice.chunks > 1 or isinstance(costs, Refusal):
            return None
        shape = self._shape(choice)
        if len(shape.schedule.chain(shape.num_stages)) > shape.num_stages or shape.schedule.num_slices > 1:
            return None
        devices = self._stage_devices(choice)
        slowness = [max(costs.slowness[device.name] for device in own) for own in devices]
        limits = [limit * min(device.memory for device in own) for own in devices]
        layers = balanced_stages(costs, shape, np.array(slowness), np.array(limits))
        if not layers or layers == default_layers(self.scenario.model.num_layers, choice.num_stages):
            return None
        return replace(choice, stages=layers)

    def shared(self, choice: PlanChoice) -> PlanChoice | None:
        """The plan with shares of the batch by the speed of the devices of every data-parallel coordinate.

        None where these are equal shares, and for plans whose data ranks meet in every micro-batch.
        """
        costs, ranks = self.costs(choice), choice.size(DATA)
        if ranks == 1 or not self.scenario.cluster.mixed or isinstance(costs, Refusal):
            return None
        sharding = self._sharding(choice.optimizer_sharding).choice
        if sharding.weights or sharding.gradients:
            return None
        total = sum(self._setting.micro_batches(replace(choice, batch_shares=()))) * ranks
        counts = shares_by_speed([self._slowest(costs, choice, place) for place in range(ranks)], total)
        if len(set(counts)) == 1:
            return None
        common = math.gcd(*counts)
        return replace(choice, batch_shares=tuple(count // common for count in counts))

    def _slowest(self, costs: LayerCosts, choice: PlanChoice, place: int) -> float:
        """How many times longer the slowest device at a coordinate of the data axis takes."""
        cluster, mesh = self.scenario.cluster, Mesh.of(dict(choice.mesh))
        ranks = np.flatnonzero(mesh.coordinates[:, mesh.names.index(DATA)] == place)
        kinds = {cluster.groups[group].kind for group in np.unique(cluster.group_of(ranks)).tolist()}
        return max(costs.slowness[cluster.kinds[kind].device.name] for kind in kinds)

    def _stage_devices(self, choice: PlanChoice) -> list[list[Device]]:
        """The kinds of devices of every stage."""
        cluster, mesh = self.scenario.cluster, Mesh.of(dict(choice.mesh))
        kinds = np.array([group.kind for group in cluster.groups])[
            cluster.group_of(np.arange(mesh.num_ranks))
        ]
        lines = mesh.groups((PIPELINE,))
        return [
            [cluster.kinds[kind].device for kind in np.unique(kinds[lines[:, stage]]).tolist()]
            for stage in range(choice.num_stages)
        ]

    def cost_key(self, choice: PlanChoice) -> tuple[Changes, bool]:
        """What the costs of its layers depend on: a small plan, and whether collectives may hide."""
        halves, pairs = _backward_forms(choice.schedule)
        hidden = pairs or self.scenario.spec.parallel.copies > 1
        text = self._work_alike(choice.optimizer_sharding)
        return self._small_changes(choice, IN_HALVES if halves else "1f1b", text), hidden

    def group_key(self, choice: PlanChoice) -> object:
        """Equal for plans that are best bounded together, as their small plans have much in common."""
        mesh = tuple(_without_pipeline(choice).items())
        return mesh, _backward_forms(choice.schedule), self._recomputed(choice.recompute)

    def costs(self, choice: PlanChoice) -> LayerCosts | Refusal:
        """The costs of its layers, or why layers cannot be split like that."""
        key = self.cost_key(choice)
        if key not in self._costs:
            small, (_, hidden) = self._small_plan(choice), key
            self._costs[key] = (
                small
                if isinstance(small, Refusal)
                else LayerCosts.of(small, self._layers, kernels_only=hidden)
            )
        return self._costs[key]

    @property
    def num_small_plans(self) -> int:
        """Small plans that were planned."""
        return len(self._small)

    def _small_plan(self, choice: PlanChoice) -> SmallPlan | Refusal:
        """The small plan that costs of its layers are read from."""
        least, most = min(self.micro_batches, default=0), max(self.micro_batches, default=0)
        if least < choice.micro_batch < most:
            small, large = (
                self._planned(replace(choice, micro_batch=micro_batch)) for micro_batch in (least, most)
            )
            between = None
            if isinstance(small, SmallPlan) and isinstance(large, SmallPlan):
                between = small.between(large, choice.micro_batch)
            if between is not None:
                return between
        return self._planned(choice)

    def _planned(self, choice: PlanChoice) -> SmallPlan | Refusal:
        changes, _ = self.cost_key(choice)
        if changes not in self._small:
            self._small[changes] = self._plan(changes, choice.micro_batch)
        return self._small[changes]

    def _plan(self, changes: Changes, micro_batch: int) -> SmallPlan | Refusal:
        # The same cluster, which knows already where groups lie and what collectives take.
        cluster = self.scenario.cluster
        try:
            spec = self.scenario.changed(changes).spec
            plan = make_plan(
                self._layers.model,
                spec.task,
                spec.parallel,
                self.scenario.framework,
                cluster,
                spec.collectives.build(),
            )
            return SmallPlan.of(cluster, plan, micro_batch)
        except SimclusterError as error:
            return Refusal(error.problems[0].message)

    @property
    def _layers(self) -> FewLayers:
        """The model with fewer layers, if nothing is said of single ones."""
        if not self._model:
            spec = self.scenario.spec
            assert spec.training is not None, "spaces are of training"
            parallel = spec.parallel
            named = isinstance(parallel.recompute.layers, tuple)
            said = (parallel.strategies, parallel.shard, parallel.host, parallel.fusion.ids, named)
            few = FewLayers.of(self.scenario.model, spec.training.seq_len, equal=not any(said))
            self._model.append(few)
        return self._model[0]

    def _small_changes(self, choice: PlanChoice, kind: str, sharding: str) -> Changes:
        """The scenario's changes to the plan without a pipeline whose layers are split alike."""
        mesh = _without_pipeline(choice)
        batch = [axis for axis in (_REPLICAS, *self._batch_axes) if axis in mesh]
        ways = math.prod(mesh[axis] for axis in batch)
        sizes = ", ".join(f"{axis}: {size}" for axis, size in mesh.items())
        return (
            ("parallel.mesh", f"{{{sizes}}}"),
            *([("parallel.roles.batch", f"[{', '.join(batch)}]")] if _REPLICAS in mesh else []),
            ("parallel.schedule", f"{{kind: {kind}, p2p: overlapped}}"),
            ("parallel.recompute", self._recomputed(choice.recompute)),
            ("parallel.optimizer_sharding", sharding),
            ("parallel.offload", "{}"),
            ("parallel.fusion", "{}"),
            ("training.micro_batch", str(choice.micro_batch)),
            ("training.global_batch", str(ways * choice.micro_batch)),
            ("training.batch_shares", "{}"),
        )

    def _shape(self, choice: PlanChoice) -> PlanShape:
        spec = self.scenario.spec
        assert spec.training is not None, "spaces are of training"
        stages = choice.num_stages
        written, schedule = _schedule(choice.schedule, choice.chunks, spec.parallel.schedule.p2p)
        chain = schedule.chain(stages)
        # Of unequal shares those who train most are a bound on all.
        count = max(self._setting.micro_batches(choice), default=0)
        _check_stages(schedule, stages, count)
        sharding = self._sharding(choice.optimizer_sharding)
        whole = not sharding.of_mindspore and not sharding.choice.axes and sharding.choice.shard_size == -1
        return PlanShape(
            stages,
            count,
            schedule,
            choice.stages or default_layers(self.scenario.model.num_layers, len(chain)),
            stages > 1 and not written.overlapped(self.scenario.framework, chain),
            self._sharded_ways(choice),
            whole and sharding.choice.regather,
            whole and sharding.choice.gradients,
            choice.offload == "{}" and self._recomputed(choice.recompute) == choice.recompute,
        )

    @cached_property
    def _is_told_by_small_plans(self) -> bool:
        """Whether layers cost in small plans what they cost in all others.

        Not where experts get unequally many tokens, and so ranks different work, nor where operators follow
        their neighbours, which may be other ones with other data-parallel ways.
        """
        spec = self.scenario.spec
        assert spec.training is not None, "spaces are of training"
        follows = spec.parallel.propagate or bool(spec.parallel.shard)
        return spec.training.routing.build() == BALANCED_ROUTING and not follows

    def _recomputed(self, text: str) -> str:
        """What a small plan recomputes: nothing, where that depends on stages, which is the least work."""
        if text not in self._again:
            layers = self.scenario.changed((("parallel.recompute", text),)).spec.parallel.recompute.layers
            named = isinstance(layers, tuple) and all(isinstance(name, str) for name in layers)
            self._again[text] = text if layers in ("none", "all") or named else "{}"
        return self._again[text]

    def _sharding(self, text: str) -> _Sharding:
        """What ``parallel.optimizer_sharding`` says."""
        if text not in self._shardings:
            written = self.scenario.changed((("parallel.optimizer_sharding", text),)).spec.parallel
            self._shardings[text] = _Sharding(
                explicit_sharding(written.optimizer_sharding, ()),
                written.optimizer_sharding is None,
                getattr(written.optimizer_sharding, "mindspore", None) is not None,
            )
        return self._shardings[text]

    def _work_alike(self, text: str) -> str:
        """A sharding with which kernels of a micro-batch do the same as with ``text``, the same one for many.

        Sharded gradients are added up in shards, which is less work; where weights are sharded, the profile
        may cast them elsewhere.
        """
        sharding = self._sharding(text)
        if sharding.by_recipe:
            return text
        plain = _SCATTERED if sharding.choice.gradients else _WHOLE
        if self._casts(text) == self._casts(plain):
            return plain
        return text

    def _casts(self, text: str) -> Numerics:
        """The number formats with a sharding."""
        if text not in self._formats:
            sharding = self._sharding(text).choice
            spec = self.scenario.spec
            assert spec.training is not None, "spaces are of training"
            self._formats[text] = Numerics.of(spec.training.formats, self.scenario.framework, sharding)
        return self._formats[text]

    def _sharded_ways(self, choice: PlanChoice) -> Ways:
        """By how much parameters, gradients and states are divided at most."""
        if choice.offload != "{}":
            return math.inf, math.inf, math.inf
        sharding = self._sharding(choice.optimizer_sharding)
        said = sharding.choice
        if sharding.by_recipe:
            return math.inf, math.inf, math.inf
        usual = not sharding.of_mindspore and not said.axes
        ways = math.prod(choice.size(axis) for axis in self._replicas) if usual else choice.stage_ranks
        weights = ways if said.keep_cast else math.inf
        return weights if said.weights else 1, ways if said.gradients else 1, ways if said.states else 1

    def _least_times(self, choice: PlanChoice, costs: LayerCosts, *, ring: bool) -> LeastTimes:
        """What communication takes at least, by bytes of a rank."""
        cluster, mesh = self.scenario.cluster, Mesh.of(dict(choice.mesh))
        transfer = _least_transfer(cluster, mesh, ring) if choice.num_stages > 1 else _nothing
        axes = tuple(axis for axis in self._replicas if choice.size(axis) > 1)
        # Experts are shared by fewer ranks than the rest: what all weights together take is not known.
        over = () if self._has_experts else axes
        return LeastTimes(
            lambda num_bytes: transfer(-(-num_bytes // costs.scatter_ways)),
            _least_collective(cluster, mesh, over, Operation.ALL_GATHER) if over else _nothing,
            _least_collective(cluster, mesh, over, Operation.REDUCE_SCATTER) if over else _nothing,
        )

    @cached_property
    def _has_experts(self) -> bool:
        model = self.scenario.model
        return isinstance(model, Routed) and bool(model.num_experts)

    @cached_property
    def _setting(self) -> SpaceSetting:
        return SpaceSetting(self.scenario)

    @cached_property
    def _batch_axes(self) -> tuple[str, ...]:
        return tuple(roles_of(self.scenario.spec.parallel)[BATCH])

    @cached_property
    def _replicas(self) -> tuple[str, ...]:
        """The axes whose ranks hold the same parameters."""
        return (*self._batch_axes, *roles_of(self.scenario.spec.parallel)[SEQUENCE])


def _nothing(num_bytes: int) -> int:
    """The time of what is not known to be communicated."""
    return 0


@lru_cache(maxsize=1024)
def _least_collective(
    cluster: Cluster, mesh: Mesh, axes: tuple[str, ...], operation: Operation
) -> Callable[[int], int]:
    """Bytes -> nanoseconds of a collective in the group over ``axes`` that is soonest done."""
    placements, _ = placements_of(cluster, mesh, axes)

    @cache
    def least(num_bytes: int) -> int:
        return min(collective_time(operation, where, num_bytes, cluster).duration_ns for where in placements)

    return least


@lru_cache(maxsize=1024)
def _least_transfer(cluster: Cluster, mesh: Mesh, ring: bool) -> Callable[[int], int]:
    """Bytes -> nanoseconds of a transfer between the neighbouring stages that are nearest to each other."""
    placements, _ = cluster.placements(pipeline_pairs(mesh, PIPELINE, ring=ring))

    @cache
    def least(num_bytes: int) -> int:
        return min(
            collective_time(Operation.SEND_RECEIVE, where, num_bytes, cluster).duration_ns
            for where in placements
        )

    return least


def _without_pipeline(choice: PlanChoice) -> dict[str, int]:
    """The mesh with data-parallel ranks in place of stages, so that groups inside a stage lie as they do."""
    axes = list(choice.mesh)
    names = [axis for axis, _ in axes]
    if PIPELINE not in names:
        return dict(axes)
    place = names.index(PIPELINE)
    stages = axes.pop(place)[1]
    at = [axis for axis, _ in axes].index(DATA)
    if place in (at, at + 1):
        axes[at] = (DATA, axes[at][1] * stages)
        return dict(axes)
    axes.insert(place, (_REPLICAS, stages))
    return dict(axes)


@cache
def _schedule(
    kind: str, chunks: int, p2p: Literal["overlapped", "blocking"] | None
) -> tuple[ScheduleSpec, Schedule]:
    """A schedule as it is written, and as it is."""
    written = ScheduleSpec(kind=kind, chunks=chunks if chunks > 1 else None, p2p=p2p)
    return written, written.build()


@lru_cache(maxsize=4096)
def _check_stages(schedule: Schedule, num_stages: int, num_micro_batches: int) -> None:
    """Raises PlanError if a schedule cannot be of so many stages and micro-batches."""
    schedule.stage(0, num_stages, num_micro_batches)


@cache
def _backward_forms(schedule: str) -> tuple[bool, bool]:
    """Whether a schedule does backwards in two halves, and whether forwards run beside backwards."""
    actions = ScheduleSpec(kind=schedule).build().stage(0, 2, 4)
    halves = any(half.kind == WEIGHTS for action in actions for half in action.parts)
    return halves, any(action.overlapped_with for action in actions)
