"""How parameters are updated: by which rules, in which formats, and what of it lies sharded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from simcluster.document import matches
from simcluster.errors import PlanError, Problem, nearest
from simcluster.layout import Movement
from simcluster.model import Block, Graph, Rules, Update, Updates
from simcluster.plan.spec import ShardingChoice
from simcluster.work import DType


@dataclass(frozen=True, slots=True)
class WrittenReduction:
    """What is done to a gradient because somebody wrote it: a movement, and a division behind it."""

    movement: Movement
    divisor: int = 1


@dataclass(frozen=True, slots=True)
class ParameterGroup:
    """Parameters, by a pattern of full names, with a rule of their own; ``states`` as in the plan."""

    match: str
    update: Update
    states: Mapping[str, DType]


@dataclass(frozen=True, slots=True)
class OptimizerPlan:
    """How parameters are updated.

    ``master`` is the dtype of the master copy, or None if the parameters are their own; ``states`` the dtypes
    of the optimizer's states; ``groups`` have rules of their own, later ones before earlier ones;
    ``sharding`` says what of all this lies sharded. ``main_gradients``: gradients
    are first copied to the master copy's dtype; ``copies``: they travel in buffers of their own.
    ``regather``: blocks that run their forward again gather sharded weights again for it. With
    ``written``, gradients by their parameter's name, nothing else is done to them whatever their layouts say.
    ``clip`` bounds the norm of all gradients.
    """

    update: Update
    master: DType | None
    states: Mapping[str, DType]
    sharding: ShardingChoice = ShardingChoice()
    main_gradients: bool = False
    copies: bool = False
    regather: bool = False
    written: Mapping[str, WrittenReduction] | None = None
    groups: tuple[ParameterGroup, ...] = ()
    clip: float | None = None

    @property
    def rules(self) -> Rules:
        """Which parameters have which rule."""
        if not self.groups:
            return self.update
        return Updates(self.update, tuple((group.match, group.update) for group in self.groups))

    def of(self, parameter: str) -> tuple[Update, Mapping[str, DType]]:
        """The rule of a parameter, and the dtypes of its states."""
        matching = (candidate for candidate in reversed(self.groups) if matches(candidate.match, parameter))
        group = next(matching, None)
        return (self.update, self.states) if group is None else (group.update, group.states)

    def sharding_of(self, block: Block) -> ShardingChoice:
        """What lies sharded of a block's parameters, and when it is gathered."""
        again = self.regather and block.recomputed and self.sharding.weights
        return replace(self.sharding, regather=True) if again else self.sharding


def check_parameter_groups(graph: Graph, plan: OptimizerPlan) -> None:
    """PlanError if a group of parameters names none."""
    names = [
        f"{instance.name}.{name}"
        for instance in graph.instances
        for name in graph.block_of(instance).parameters
    ]
    problems = [
        Problem(
            f"'{group.match}' matches no parameter",
            f"training.optimizer.groups.{index}.match",
            nearest(group.match, names),
        )
        for index, group in enumerate(plan.groups)
        if not any(matches(group.match, name) for name in names)
    ]
    if problems:
        raise PlanError(*problems)
