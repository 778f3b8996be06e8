"""Collectives that a hand-written program may call, with their arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, TypeVar

from simcluster.document import NonNegativeInt, PositiveInt, Section, validate_data
from simcluster.errors import PlanError, ScenarioError
from simcluster.layout import Movement, MovementKind
from simcluster.model import Entry, Operator, TensorType
from simcluster.plan.manual.collective_operator import Collective, Mirror, view
from simcluster.plan.manual.groups import Groups
from simcluster.plan.spec import WORLD, GroupName

Reduction = Literal["sum", "max", "min", "prod"]
CallSection = TypeVar("CallSection", bound=Section)


class CollectiveCall(Section):
    """The arguments that all collectives have."""

    group: GroupName = WORLD[0]
    """The group: an axis of the mesh or several, explicit groups, or all ranks."""

    kind: ClassVar[MovementKind]

    def movement(self, groups: Groups, axes: tuple[str, ...], path: str) -> Movement:
        """The collective over ``axes``, as a movement."""
        return Movement(self.kind, axes)


class AllReduceCall(CollectiveCall):
    """Every rank: the elementwise reduction of all tensors."""

    kind = MovementKind.ALL_REDUCE

    reduction: Reduction = "sum"
    """sum, max, min or prod."""

    gradient: Literal["registered", "identity"] = "registered"
    """registered: MindSpore's, an all-reduce of the gradient; it holds where every rank's loss counts.
    identity: the gradient as it is, for sums behind which all ranks compute the same, or one loss is told."""

    def movement(self, groups: Groups, axes: tuple[str, ...], path: str) -> Movement:
        """An all-reduce."""
        return Movement(self.kind, axes, reduction=self.reduction)


class MirrorCall(CollectiveCall):
    """The tensor as it is; its gradient is all-reduced."""

    kind = MovementKind.ALL_REDUCE


class AllGatherCall(CollectiveCall):
    """Every rank: all tensors, one after the other along ``dim``."""

    kind = MovementKind.ALL_GATHER

    dim: NonNegativeInt = 0
    """The dim along which they are joined."""

    def movement(self, groups: Groups, axes: tuple[str, ...], path: str) -> Movement:
        """An all-gather."""
        return Movement(self.kind, axes, self.dim)


class ReduceScatterCall(AllGatherCall):
    """Every rank: its part, along ``dim``, of the elementwise reduction."""

    kind = MovementKind.REDUCE_SCATTER

    reduction: Reduction = "sum"
    """sum, max, min or prod."""

    def movement(self, groups: Groups, axes: tuple[str, ...], path: str) -> Movement:
        """A reduce-scatter."""
        return Movement(self.kind, axes, self.dim, reduction=self.reduction)


class AllToAllCall(CollectiveCall):
    """Rank i gets part i along ``split_dim`` of every rank's tensor, concatenated along ``concat_dim``."""

    kind = MovementKind.ALL_TO_ALL

    split_dim: int
    """The dim that is cut; -1 is the last."""

    concat_dim: int
    """The dim that is joined; -1 is the last."""

    split_count: PositiveInt | None = None
    """Into how many parts; the size of the group."""

    def movement(self, groups: Groups, axes: tuple[str, ...], path: str) -> Movement:
        """An all-to-all."""
        size = groups.size(axes)
        if self.split_count not in (None, size):
            message = f"{self.split_count} parts for a group of {size} ranks"
            raise PlanError(message, path=f"{path}.split_count", hint=f"write {size}, or leave it out")
        return Movement(self.kind, axes, self.concat_dim, self.split_dim)


class BroadcastCall(CollectiveCall):
    """Every rank: the tensor of the root."""

    kind = MovementKind.BROADCAST

    root_rank: NonNegativeInt = 0
    """The root's place in its group."""

    def movement(self, groups: Groups, axes: tuple[str, ...], path: str) -> Movement:
        """A broadcast, or the reduction that is its gradient, with the root as first of its group."""
        size = groups.size(axes)
        if self.root_rank >= size:
            message = f"a group of {size} ranks has no place {self.root_rank}"
            raise PlanError(message, path=f"{path}.root_rank", hint=f"places are 0 to {size - 1}")
        return Movement(self.kind, groups.rooted(axes, self.root_rank))


class ReduceCall(BroadcastCall):
    """The root: the elementwise sum; the others get zeros."""

    kind = MovementKind.REDUCE


class BarrierCall(CollectiveCall):
    """Nobody goes on before all have come."""

    kind = MovementKind.BARRIER


CALLS: Mapping[str, type[CollectiveCall]] = {
    "all_reduce": AllReduceCall,
    "mirror": MirrorCall,
    "all_gather": AllGatherCall,
    "reduce_scatter": ReduceScatterCall,
    "all_to_all": AllToAllCall,
    "broadcast": BroadcastCall,
    "reduce": ReduceCall,
    "barrier": BarrierCall,
}
"""Collectives in which all members of a group do the same, by the name in the program."""


def read_call(entry: Entry, section: type[CallSection]) -> CallSection:
    """The arguments of an entry; PlanError, with their places, for those that it may not have."""
    try:
        return validate_data(entry.attributes, section)
    except ScenarioError as error:
        problems = (
            replace(
                problem,
                message=f"'{entry.name}' ({entry.op}): {problem.message}",
                path=f"{entry.path}.{problem.path}".rstrip("."),
            )
            for problem in error.problems
        )
        raise PlanError(*problems) from None


def collective_operator_of(entry: Entry, groups: Groups, inputs: Sequence[TensorType]) -> Operator:
    """The operator that represents a collective of all members of a group; PlanError if it is impossible."""
    call = read_call(entry, CALLS[entry.op])
    axes = groups.axes(call.group, f"{entry.path}.group")
    movement = call.movement(groups, axes, entry.path)
    reads = 0 if movement.kind is MovementKind.BARRIER else 1
    if len(inputs) != reads:
        raise PlanError(
            f"'{entry.name}' ({entry.op}): it reads {reads} tensor{'s' * (reads != 1)}, not {len(inputs)}",
            path=f"{entry.path}.inputs",
        )
    rank = len(inputs[0].shape) if inputs else None
    if movement.kind is MovementKind.ALL_TO_ALL:
        assert rank is not None
        movement = _counted(entry, movement, rank)
    once = isinstance(call, AllReduceCall) and call.gradient == "identity"
    made = Collective(movement, groups.size(movement.axes), rank, entry.path, once)
    return Mirror(view(inputs[0]), made) if isinstance(call, MirrorCall) else made


def _counted(entry: Entry, movement: Movement, rank: int) -> Movement:
    """Dims that are counted from the end as they are counted from the beginning."""
    dims: dict[str, Any] = {}
    for key, name, dim in (("dim", "concat_dim", movement.dim), ("to_dim", "split_dim", movement.to_dim)):
        if not -rank <= dim < rank:
            problem = f"'{entry.name}' ({entry.op}): a tensor of {rank} dims has no dim {dim}"
            raise PlanError(problem, path=f"{entry.path}.{name}")
        dims[key] = dim % rank
    return replace(movement, **dims)
