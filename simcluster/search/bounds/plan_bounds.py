"""Lower bounds of the plans of a space: layer costs worked out once for all plans that split layers alike."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache

from simcluster.cluster import Cluster
from simcluster.collectives import Operation, collective_time
from simcluster.errors import SimclusterError
from simcluster.layout import Mesh
from simcluster.plan import BATCH, SEQUENCE, WEIGHTS, ScheduleSpec, default_layers, explicit_sharding, roles_of
from simcluster.program import pipeline_pairs
from simcluster.scenario import Scenario
from simcluster.search.bounds.layer_costs import LayerCosts
from simcluster.search.bounds.plan_bound import PlanBound, PlanShape, balanced_stages, bound_plan
from simcluster.search.space import DATA, PIPELINE, PlanChoice
from simcluster.simulation import plan_scenario
from simcluster.tuning import Changes

IN_HALVES = "zb_h1"
"""A schedule that does backwards in two halves: small plans have it for the costs of such halves."""

_REPLICAS = "replicas"
"""The axis that stands in a small plan where the pipeline stands, if that is not beside the data axis."""

Ways = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a plan is impossible."""

    message: str


@dataclass
class PlanBounds:
    """Bounds of plans of one scenario."""

    scenario: Scenario
    _costs: dict[tuple[Changes, bool], LayerCosts | Refusal] = field(default_factory=dict)
    _ways: dict[str, tuple[bool, bool, bool, bool, bool]] = field(default_factory=dict)

    @property
    def num_costed(self) -> int:
        """Small plans that layer costs were read from."""
        return len(self._costs)

    def of(self, choice: PlanChoice) -> PlanBound | Refusal:
        """The bound of a plan, or why it is impossible."""
        try:
            shape = self._shape(choice)
        except SimclusterError as error:
            return Refusal(error.problems[0].message)
        if shape.schedule.num_slices > 1:
            return PlanBound(0, 0)  # sequences in slices: costs of whole ones say nothing
        costs = self.costs(choice)
        if isinstance(costs, Refusal):
            return costs
        chain = shape.schedule.chain(shape.num_stages)
        return bound_plan(costs, shape, self._transfer_time(choice, costs, ring=chain.num_chunks > 1), chain)

    def balanced(self, choice: PlanChoice, limit: float) -> PlanChoice | None:
        """The plan with layers balanced over its stages so that none needs more than ``limit`` bytes.

        None where that is no other plan, and for stages of several chunks.
        """
        costs = self.costs(choice)
        if choice.num_stages == 1 or choice.chunks > 1 or isinstance(costs, Refusal):
            return None
        shape = self._shape(choice)
        if len(shape.schedule.chain(shape.num_stages)) > shape.num_stages or shape.schedule.num_slices > 1:
            return None
        layers = balanced_stages(costs, shape, limit)
        if not layers or layers == default_layers(self.scenario.model.num_layers, choice.num_stages):
            return None
        return replace(choice, stages=layers)

    def cost_key(self, choice: PlanChoice) -> tuple[Changes, bool]:
        """What the costs of its layers depend on: a small plan, and whether collectives may hide."""
        halves, pairs = _backward_forms(choice.schedule)
        hidden = pairs or self.scenario.spec.parallel.copies > 1
        return self._small_plan(choice, IN_HALVES if halves else "1f1b"), hidden

    def costs(self, choice: PlanChoice) -> LayerCosts | Refusal:
        """The costs of its layers, or why layers cannot be split like that."""
        key = self.cost_key(choice)
        if key not in self._costs:
            self._costs[key] = self._read(*key)
        return self._costs[key]

    def _read(self, changes: Changes, hidden: bool) -> LayerCosts | Refusal:
        """The costs of a small plan; ``hidden``: kernels of other micro-batches run beside collectives."""
        try:
            small = self.scenario.changed(changes)
            return LayerCosts.of(small, plan_scenario(small, search=False), kernels_only=hidden)
        except SimclusterError as error:
            return Refusal(error.problems[0].message)

    def _small_plan(self, choice: PlanChoice, kind: str) -> Changes:
        """The scenario's changes to the plan without a pipeline whose layers are split alike."""
        mesh = _without_pipeline(choice)
        roles = roles_of(self.scenario.spec.parallel)
        batch = [axis for axis in (*roles[BATCH], _REPLICAS) if axis in mesh]
        ways = math.prod(mesh[axis] for axis in batch)
        sizes = ", ".join(f"{axis}: {size}" for axis, size in mesh.items())
        return (
            ("parallel.mesh", f"{{{sizes}}}"),
            *([("parallel.roles.batch", f"[{', '.join(batch)}]")] if _REPLICAS in mesh else []),
            ("parallel.schedule", f"{{kind: {kind}, p2p: overlapped}}"),
            ("parallel.recompute", choice.recompute),
            ("parallel.optimizer_sharding", "{zero: 0}"),
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
        written = ScheduleSpec(
            kind=choice.schedule,
            chunks=choice.chunks if choice.chunks > 1 else None,
            p2p=spec.parallel.schedule.p2p,
        )
        schedule = written.build()
        chain = schedule.chain(stages)
        roles = roles_of(spec.parallel)
        ways = math.prod(choice.size(axis) for axis in roles[BATCH])
        count = spec.training.global_batch // (ways * choice.micro_batch)
        schedule.stage(0, stages, count)
        return PlanShape(
            stages,
            count,
            schedule,
            choice.stages or default_layers(self.scenario.model.num_layers, len(chain)),
            stages > 1 and not written.overlapped(self.scenario.framework, chain),
            self._sharded_ways(choice),
            choice.offload == "{}",
        )

    def _sharded_ways(self, choice: PlanChoice) -> Ways:
        """By how much parameters, gradients and states are divided at most."""
        if choice.optimizer_sharding not in self._ways:
            changes = (("parallel.optimizer_sharding", choice.optimizer_sharding),)
            written = self.scenario.changed(changes).spec.parallel.optimizer_sharding
            sharding = explicit_sharding(written, ())
            usual = getattr(written, "mindspore", None) is None and not sharding.axes
            self._ways[choice.optimizer_sharding] = (
                usual,
                sharding.weights,
                sharding.keep_cast,
                sharding.gradients,
                sharding.states or written is None,
            )
        usual, weights, keep_cast, gradients, states = self._ways[choice.optimizer_sharding]
        roles = roles_of(self.scenario.spec.parallel)
        over = {*roles[BATCH], *roles[SEQUENCE]}
        ways = math.prod(choice.size(axis) for axis in over) if usual else choice.stage_ranks
        parameters = math.inf if weights and not keep_cast else ways if weights else 1
        away = choice.offload != "{}"
        return (
            math.inf if away else parameters,
            math.inf if away else ways if gradients else 1,
            math.inf if away else ways if states else 1,
        )

    def _transfer_time(self, choice: PlanChoice, costs: LayerCosts, *, ring: bool) -> Callable[[int], int]:
        """The least time of a transfer of so many bytes from a stage to the next."""
        mesh = Mesh.of(dict(choice.mesh))
        pairs = _least_transfer(self.scenario.cluster, mesh, ring) if choice.num_stages > 1 else None

        def least(num_bytes: int) -> int:
            assert pairs is not None
            return pairs(-(-num_bytes // costs.scatter_ways))

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
def _backward_forms(schedule: str) -> tuple[bool, bool]:
    """Whether a schedule does backwards in two halves, and whether forwards run beside backwards."""
    actions = ScheduleSpec(kind=schedule).build().stage(0, 2, 4)
    halves = any(half.kind == WEIGHTS for action in actions for half in action.parts)
    return halves, any(action.overlapped_with for action in actions)
