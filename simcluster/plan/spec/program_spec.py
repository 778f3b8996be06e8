"""The scenario's ``parallel.program``: what every rank runs, written by hand (mode manual)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, model_validator

from simcluster.document import Name, NonNegativeInt, PositiveInt, Refused, Section
from simcluster.model import Entry, entries, numbered

WORLD = ("world", "hccl_world_group", "nccl_world_group")
"""What the group of all ranks may be called."""

GroupName = Name | Annotated[tuple[Name, ...], Field(min_length=1)]


class PartSpec(Section):
    """Which part of a tensor of the reference model a rank has: ``{of: fc1.weight, split: {1: tensor}}``."""

    of: Name | None = None
    """The parameter of the one-device reference; the one of the same name if absent. Feeds always have the
    name of the reference's."""

    split: dict[NonNegativeInt, GroupName] = {}
    """Dim -> group over which it is split, by the rank's position in its group; other dims are not split."""

    @model_validator(mode="before")
    @classmethod
    def _counts(cls, written: Any) -> Any:
        return numbered(written)


class GradientSpec(Section):
    """How gradients are reduced before the update: ``{match: "*", group: world, mean: true}``."""

    match: Name = "*"
    """Pattern of parameter names; later entries win."""

    op: Literal["all_reduce", "none"] = "all_reduce"
    """all_reduce sums gradients over a group, as ``DistributedGradReducer`` does; none: no reduction."""

    group: GroupName = "world"
    """The group of ranks."""

    mean: StrictBool = False
    """Whether the sum is divided by ``degree``."""

    degree: PositiveInt | None = None
    """The divisor; the size of the group if absent."""

    @model_validator(mode="after")
    def _is_consistent(self) -> GradientSpec:
        if self.degree is not None and not self.mean:
            raise Refused(
                "a sum is not divided by anything", path="degree", hint="write mean: true, or leave it out"
            )
        return self


class ProgramSpec(Section):
    """A graph with local shapes, its collectives, and which part of each reference tensor a rank has.

    MindSpore's hybrid parallel: nothing is inserted that is not written.
    """

    groups: dict[Name, tuple[tuple[NonNegativeInt, ...], ...]] = {}
    """Explicit groups, as made by ``create_group(name, rank_ids)``: name -> disjoint lists of ranks of equal
    length. Mesh axes are groups of the same name; ``world`` is all ranks."""

    feeds: dict[Name, PartSpec] = {}
    """Feeds of the reference model, and which part of each a rank reads."""

    parameters: dict[Name, PartSpec] = {}
    """Trainable parameters, by their names in the program."""

    operators: Annotated[tuple[dict[Name, Any], ...], Field(min_length=1)]
    """In execution order, as in ``model.graph``, with local shapes. ``ranks`` restricts an operator to some
    ranks; others may run another operator of the same name. ``part`` ({dim: group}) is for operators whose
    result depends on where the rank's part begins, such as a lookup in a table of which the rank has some
    rows. Collectives are all_reduce, all_gather, reduce_scatter, broadcast, reduce, all_to_all, all_to_all_v,
    neighbor_exchange, neighbor_exchange_v2, send, receive, barrier."""

    loss: Name
    """The operator whose result is the loss, on the ranks that run it."""

    gradients: tuple[GradientSpec, ...] = ()
    """How gradients are reduced before the update; parameters that no entry matches are updated with the
    rank's local gradients."""

    @model_validator(mode="after")
    def _is_written(self) -> ProgramSpec:
        self.entries()
        return self

    def entries(self) -> tuple[Entry, ...]:
        """The operators as they are written."""
        return entries(self.operators, "operators", unique=False)
