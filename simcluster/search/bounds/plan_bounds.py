"""Lower bounds of the plans of a space: layer costs worked out once for all plans that split layers alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable
from dataclasses import field, replace
from functools import cache, cached_property, lru_cache
from typing import Literal

import numpy as np

from simcluster.cluster import Cluster, Device, placements_of
from simcluster.collectives import Operation, collective_time
from simcluster.deferred_dataclass import dataclass
from simcluster.errors import SimclusterError
from simcluster.layout import Mesh
from simcluster.model import Routed
from simcluster.plan import (
    BATCH,
    SEQUENCE,
    Schedule,
    ScheduleSpec,
    default_layers,
    roles_of,
)
from simcluster.program import pipeline_pairs
from simcluster.scenario import Scenario
from simcluster.search.bounds.flops_bound import least_time_of_flops
from simcluster.search.bounds.layer_costs import LayerCosts
from simcluster.search.bounds.plan_bound import (
    LeastTimes,
    PlanBound,
    PlanShape,
    balanced_stages,
    least_memory,
    least_time,
)
from simcluster.search.bounds.plan_texts import PlanTexts
from simcluster.search.bounds.share_balance import shares_by_speed
from simcluster.search.bounds.small_plans import Refusal, SmallPlans
from simcluster.search.space import DATA, PIPELINE, PlanChoice, SpaceSetting

Ways = tuple[float, float, float]


@dataclass
class PlanBounds:
    """Bounds of plans of one scenario."""

    scenario: Scenario
    micro_batches: tuple[int, ...] = ()
    """The micro-batches that its plans have: the least and the most of many tell what those between cost."""
    allowed: float = math.inf
    """Bytes of a device; the time of plans that need more is not looked at."""
    texts: PlanTexts = field(init=False)
    small_plans: SmallPlans = field(init=False)
    _flops_of_sample: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.texts = PlanTexts(self.scenario)
        self.small_plans = SmallPlans(self.texts, self.micro_batches)

    def of_group(self, choices: Iterable[PlanChoice]) -> PlanBounds:
        """The same for some plans that have a ``group_key`` in common, and nothing of other small plans."""
        micro_batches = sorted({choice.micro_batch for choice in choices})
        group = replace(self, micro_batches=tuple(micro_batches))
        group.texts = self.texts
        group.small_plans = SmallPlans(self.texts, group.micro_batches)
        return group

    def group_key(self, choice: PlanChoice) -> Hashable:
        """Equal for plans that are best bounded together, as their small plans have much in common."""
        return self.small_plans.group_key(choice)

    def of(self, choice: PlanChoice) -> PlanBound | Refusal:
        """The bound of a plan, or why it is impossible."""
        try:
            shape = self._shape(choice)
        except SimclusterError as error:
            return Refusal(error.problems[0].message)
        if self._follows_neighbours:
            return PlanBound(self._time_of_flops(choice), 0)
        chain = shape.schedule.chain(shape.num_stages)
        # The first tells it of most of those that are too large, with fewer small plans.
        near = self.small_plans.least_memory(choice)
        if isinstance(near, Refusal):
            return near
        num_bytes = least_memory(near, shape, chain)
        if num_bytes > self.allowed:
            return PlanBound(0, num_bytes)
        memory = self.small_plans.memory(choice)
        if isinstance(memory, Refusal):
            return memory
        num_bytes = least_memory(memory, shape, chain)
        if num_bytes > self.allowed:
            return PlanBound(0, num_bytes)
        costs = self.small_plans.costs(choice)
        if isinstance(costs, Refusal):
            return costs
        times = self._least_times(choice, costs, ring=chain.num_chunks > 1)
        return PlanBound(least_time(costs, memory, shape, times, chain), num_bytes)

    def _time_of_flops(self, choice: PlanChoice) -> int:
        """Nanoseconds by the FLOPs of a step; 0 where they depend on what experts get, too."""
        if self.texts.is_routed:
            return 0
        spec = self.scenario.spec
        assert spec.training is not None, "spaces are of training"
        if not self._flops_of_sample:
            work = self.small_plans.matrix_work(choice)
            if work is None:
                return 0
            self._flops_of_sample.append(work)
        flops = self._flops_of_sample[0] * spec.training.global_batch
        numerics = self.texts.formats(choice.optimizer_sharding)
        return least_time_of_flops(flops, self.scenario.cluster, numerics)

    def balanced(self, choice: PlanChoice, limit: float) -> PlanChoice | None:
        """The plan with layers balanced over its stages by their time, on the devices that each has.

        No stage needs more than the part ``limit`` of their memory, by what is known of it. None where that
        is no other plan, and for stages of several chunks.
        """
        if choice.num_stages == 1 or choice.chunks > 1:
            return None
        costs, memory = self.small_plans.costs(choice), self.small_plans.memory(choice)
        if isinstance(costs, Refusal) or isinstance(memory, Refusal):
            return None
        shape = self._shape(choice)
        if len(shape.schedule.chain(shape.num_stages)) > shape.num_stages or shape.schedule.num_slices > 1:
            return None
        devices = self._stage_devices(choice)
        slowness = [max(costs.slowness[device.name] for device in own) for own in devices]
        limits = [limit * min(device.memory for device in own) for own in devices]
        layers = balanced_stages(costs, memory, shape, np.array(slowness), np.array(limits))
        if not layers or layers == default_layers(self.scenario.model.num_layers, choice.num_stages):
            return None
        return replace(choice, stages=layers)

    def shared(self, choice: PlanChoice) -> PlanChoice | None:
        """The plan with shares of the batch by the speed of the devices of every data-parallel coordinate.

        None where these are equal shares, and for plans whose data ranks meet in every micro-batch.
        """
        costs, ranks = self.small_plans.costs(choice), choice.size(DATA)
        if ranks == 1 or not self.scenario.cluster.mixed or isinstance(costs, Refusal):
            return None
        sharding = self.texts.sharding(choice.optimizer_sharding).choice
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

    def _shape(self, choice: PlanChoice) -> PlanShape:
        spec = self.scenario.spec
        assert spec.training is not None, "spaces are of training"
        stages = choice.num_stages
        written, schedule = _schedule(
            choice.schedule, choice.chunks, choice.slices, choice.pairs, spec.parallel.schedule.p2p
        )
        chain = schedule.chain(stages)
        # Of unequal shares those who train most are a bound on all.
        count = max(self._setting.micro_batches(choice), default=0)
        _check_stages(schedule, stages, count)
        sharding = self.texts.sharding(choice.optimizer_sharding)
        whole = (
            schedule.num_slices == 1
            and spec.parallel.copies == 1
            and not sharding.of_mindspore
            and not sharding.choice.axes
            and sharding.choice.shard_size == -1
        )
        return PlanShape(
            stages,
            # Copies of a micro-batch are micro-batches of fewer samples, as in the small plan.
            count * spec.parallel.copies,
            schedule,
            choice.stages or default_layers(self.scenario.model.num_layers, len(chain)),
            stages > 1 and not written.overlapped(self.scenario.framework, chain),
            self._sharded_ways(choice),
            whole and sharding.choice.regather,
            whole and sharding.choice.gradients,
            choice.offload == "{}" and self.texts.recomputed(choice.recompute) == choice.recompute,
        )

    @cached_property
    def _follows_neighbours(self) -> bool:
        """Whether operators follow their neighbours, which may be other ones with other data-parallel ways:
        then small plans tell nothing.
        """
        parallel = self.scenario.spec.parallel
        return parallel.propagate or bool(parallel.shard)

    def _sharded_ways(self, choice: PlanChoice) -> Ways:
        """By how much parameters, gradients and states are divided at most."""
        if choice.offload != "{}":
            return math.inf, math.inf, math.inf
        sharding = self.texts.sharding(choice.optimizer_sharding)
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


@cache
def _schedule(
    kind: str, chunks: int, slices: int, pairs: bool, p2p: Literal["overlapped", "blocking"] | None
) -> tuple[ScheduleSpec, Schedule]:
    """A schedule as it is written, and as it is."""
    written = ScheduleSpec(
        kind=kind, chunks=chunks if chunks > 1 else None, slices=slices or None, pairs=pairs or None, p2p=p2p
    )
    return written, written.build()


@lru_cache(maxsize=4096)
def _check_stages(schedule: Schedule, num_stages: int, num_micro_batches: int) -> None:
    """Raises PlanError if a schedule cannot be of so many stages and micro-batches."""
    schedule.stage(0, num_stages, num_micro_batches)
