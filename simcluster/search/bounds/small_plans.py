"""The small plans of a group of plans: each is planned once, and what its layers cost is read once.

Most plans of a large space are too large for the memory. So what layers hold is asked for first, and what
they cost in time only of plans that may fit.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import field, replace
from functools import cache, cached_property

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import SimclusterError
from simcluster.plan import BATCH, WEIGHTS, ScheduleSpec, ShardedModels, make_plan, roles_of
from simcluster.search.bounds.flops_bound import matrix_work
from simcluster.search.bounds.layer_costs import LayerCosts
from simcluster.search.bounds.layer_memory import LayerMemory
from simcluster.search.bounds.plan_texts import SCATTERED, WHOLE, PlanTexts
from simcluster.search.bounds.small_plan import SmallPlan
from simcluster.search.space import DATA, PIPELINE, PlanChoice
from simcluster.tuning import Changes

IN_HALVES = "zb_h1"
"""A schedule that does backwards in two halves: small plans have it for the costs of such halves."""

_REPLICAS = "replicas"
"""The axis that stands in a small plan where the pipeline stands, if that is not beside the data axis."""

_BEHIND_SHARDING = ("parallel.recompute", "parallel.optimizer_sharding", "parallel.offload")
"""What is done with a sharded graph."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a plan is impossible."""

    message: str


@dataclass
class SmallPlans:
    """Small plans of one scenario, for some plans that have a ``group_key`` in common."""

    texts: PlanTexts
    micro_batches: tuple[int, ...] = ()
    """The micro-batches of those plans, ascending: of many the first and the last tell what others cost."""
    _planned: dict[Changes, SmallPlan | Refusal] = field(default_factory=dict)
    _sharded: dict[Changes, ShardedModels] = field(default_factory=dict)
    _costs: dict[Hashable, LayerCosts | Refusal] = field(default_factory=dict)
    _memories: dict[Changes, LayerMemory | Refusal] = field(default_factory=dict)

    def group_key(self, choice: PlanChoice) -> Hashable:
        """Equal for plans that are best bounded together, as their small plans have much in common."""
        return tuple(_without_pipeline(choice).items()), _backward_forms(choice.schedule, choice.pairs)

    @property
    def num_planned(self) -> int:
        """Small plans that were planned."""
        return len(self._planned)

    def costs(self, choice: PlanChoice) -> LayerCosts | Refusal:
        """What the layers of a plan cost in time, or why they cannot be split like that."""
        _, pairs = _backward_forms(choice.schedule, choice.pairs)
        hidden = pairs or self.texts.scenario.spec.parallel.copies > 1
        key = self._changes(choice), hidden
        if key not in self._costs:
            small = self._small_plan(choice)
            self._costs[key] = (
                small
                if isinstance(small, Refusal)
                else LayerCosts.of(small, self.texts.layers, kernels_only=hidden)
            )
        return self._costs[key]

    def memory(self, choice: PlanChoice) -> LayerMemory | Refusal:
        """What its layers hold without optimizer sharding, or why they cannot be split like that."""
        whole = self._memory(replace(choice, optimizer_sharding=WHOLE))
        if self.texts.work_alike(choice.optimizer_sharding) in (WHOLE, SCATTERED):
            return whole
        # With other formats, activations may be kept in others.
        own = self._memory(choice)
        if isinstance(own, Refusal) or isinstance(whole, Refusal):
            return own if isinstance(own, Refusal) else whole
        return replace(whole, kept=own.kept)

    def least_memory(self, choice: PlanChoice) -> LayerMemory | Refusal:
        """What its layers hold at least, as those of the least micro-batch: fewer small plans tell it."""
        least = min(self.micro_batches, default=choice.micro_batch)
        return self.memory(replace(choice, micro_batch=min(least, choice.micro_batch)))

    def matrix_work(self, choice: PlanChoice) -> float | None:
        """FLOPs of a sample's matrix products; None for a plan that is impossible."""
        small = self._plan_of(choice)
        if isinstance(small, Refusal):
            return None
        return matrix_work(small.plan.logical) / (small.micro_batch * small.plan.placement.batch_ways)

    def _memory(self, choice: PlanChoice) -> LayerMemory | Refusal:
        key = self._changes(choice)
        if key not in self._memories:
            self._memories[key] = self._memory_between(choice) or self._memory_of(self._plan_of(choice))
        return self._memories[key]

    def _memory_of(self, small: SmallPlan | Refusal) -> LayerMemory | Refusal:
        return small if isinstance(small, Refusal) else LayerMemory.of(small, self.texts.layers)

    def _memory_between(self, choice: PlanChoice) -> LayerMemory | None:
        """What it holds by those of the least and the largest micro-batch; None if they do not tell it."""
        ends = self._ends(choice)
        if not ends or not ends[0].holds_alike(ends[1]):
            return None
        small, large = (
            self._memory(replace(choice, micro_batch=end))
            for end in (ends[0].micro_batch, ends[1].micro_batch)
        )
        if isinstance(small, Refusal) or isinstance(large, Refusal):
            return None
        return small.between(
            large, choice.micro_batch - ends[0].micro_batch, ends[1].micro_batch - choice.micro_batch
        )

    def _ends(self, choice: PlanChoice) -> tuple[SmallPlan, SmallPlan] | None:
        """The plans with the least and the largest micro-batch, if the choice's lies between them."""
        if not self.micro_batches or not self.micro_batches[0] < choice.micro_batch < self.micro_batches[-1]:
            return None
        small, large = (
            self._plan_of(replace(choice, micro_batch=micro_batch))
            for micro_batch in (self.micro_batches[0], self.micro_batches[-1])
        )
        if isinstance(small, SmallPlan) and isinstance(large, SmallPlan):
            return small, large
        return None

    def _small_plan(self, choice: PlanChoice) -> SmallPlan | Refusal:
        """The small plan that costs of its layers are read from."""
        ends = self._ends(choice)
        between = ends[0].between(ends[1], choice.micro_batch) if ends else None
        return between or self._plan_of(choice)

    def _plan_of(self, choice: PlanChoice) -> SmallPlan | Refusal:
        changes = self._changes(choice)
        if changes not in self._planned:
            self._planned[changes] = self._plan(changes, choice.micro_batch)
        return self._planned[changes]

    def _plan(self, changes: Changes, micro_batch: int) -> SmallPlan | Refusal:
        scenario = self.texts.scenario
        # The same cluster, which knows already where groups lie and what collectives take.
        cluster = scenario.cluster
        try:
            spec = scenario.changed(changes).spec
            plan = make_plan(
                self.texts.layers.model,
                spec.task,
                spec.parallel,
                scenario.framework,
                cluster,
                spec.collectives.build(),
                known=self._sharded.setdefault(_before_sharding(changes), {}),
            )
            return SmallPlan.of(cluster, plan, micro_batch, is_routed=self.texts.is_routed)
        except SimclusterError as error:
            return Refusal(error.problems[0].message)

    def _changes(self, choice: PlanChoice) -> Changes:
        """The scenario's changes to the plan without a pipeline whose layers are split alike."""
        halves, _ = _backward_forms(choice.schedule, choice.pairs)
        mesh = _without_pipeline(choice)
        batch = [axis for axis in (_REPLICAS, *self._batch_axes) if axis in mesh]
        ways = math.prod(mesh[axis] for axis in batch)
        sizes = ", ".join(f"{axis}: {size}" for axis, size in mesh.items())
        training = self.texts.scenario.spec.training
        assert training is not None, "spaces are of training"
        slices = choice.slices or _num_slices(choice.schedule)
        return (
            ("parallel.mesh", f"{{{sizes}}}"),
            *([("parallel.roles.batch", f"[{', '.join(batch)}]")] if _REPLICAS in mesh else []),
            ("parallel.schedule", f"{{kind: {IN_HALVES if halves else '1f1b'}, p2p: overlapped}}"),
            ("parallel.recompute", self.texts.recomputed(choice.recompute)),
            ("parallel.optimizer_sharding", self.texts.work_alike(choice.optimizer_sharding)),
            ("parallel.offload", "{}"),
            ("parallel.fusion", "{}"),
            ("training.micro_batch", str(choice.micro_batch)),
            ("training.global_batch", str(ways * choice.micro_batch)),
            ("training.batch_shares", "{}"),
            *([("training.routing", "{}")] if self.texts.is_routed else []),
            # The first slice attends to itself alone, so no other takes less.
            *([("training.seq_len", str(training.seq_len // slices))] if slices > 1 else []),
        )

    @cached_property
    def _batch_axes(self) -> tuple[str, ...]:
        return tuple(roles_of(self.texts.scenario.spec.parallel)[BATCH])


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
def _backward_forms(schedule: str, pairs: bool) -> tuple[bool, bool]:
    """Whether a schedule does backwards in two halves, and whether forwards run beside backwards."""
    actions = ScheduleSpec(kind=schedule, pairs=pairs or None).build().stage(0, 2, 4)
    halves = any(half.kind == WEIGHTS for action in actions for half in action.parts)
    return halves, any(action.overlapped_with for action in actions)


def _before_sharding(changes: Changes) -> Changes:
    """What the sharded graph of a small plan depends on."""
    return tuple(change for change in changes if change[0] not in _BEHIND_SHARDING)


@cache
def _num_slices(schedule: str) -> int:
    """The slices of sequences that a kind of schedule has where nobody says how many."""
    return ScheduleSpec(kind=schedule).build().num_slices
