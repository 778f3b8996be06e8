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
    """Which part of one of the reference's tensors a rank has: ``{of: fc1.weight, split: {1: tensor}}``."""

    of: Name | None = None
    """The parameter of the one-device reference; the one of this name if absent. Feeds always have the name
    of the reference's."""

    split: dict[NonNegativeInt, GroupName] = {}
    """Dim -> the group over which it is split, by a rank's place in its own; other dims are whole."""

    @model_validator(mode="before")
    @classmethod
    def _counts(cls, written: Any) -> Any:
        return numbered(written)


class GradientSpec(Section):
    """What becomes of gradients before the update: ``{match: "*", group: world, mean: true}``."""

    match: Name = "*"
    """Parameters by name, as a pattern; later entries win."""

    op: Literal["all_reduce", "none"] = "all_reduce"
    """all_reduce adds up those of a group, as ``DistributedGradReducer`` does; none: nothing."""

    group: GroupName = "world"
    """The group."""

    mean: StrictBool = False
    """Whether the sum is divided by ``degree``."""

    degree: PositiveInt | None = None
    """What it is divided by; the size of the group if absent."""

    @model_validator(mode="after")
    def _is_consistent(self) -> GradientSpec:
        if self.degree is not None and not self.mean:
            raise Refused(
                "a sum is not divided by anything", path="degree", hint="write mean: true, or leave it out"
            )
        return self


class ProgramSpec(Section):
    """A graph of local shapes with the collectives in it, and which part of the reference's tensors is where.

    MindSpore's hybrid parallel: nothing is inserted that is not written.
    """

    groups: dict[Name, tuple[tuple[NonNegativeInt, ...], ...]] = {}
    """Explicit groups, as ``create_group(name, rank_ids)`` makes them: name -> lists of ranks, equally long,
    no rank in two of them. Axes of the mesh are groups of their own name; ``world`` is all ranks."""

    feeds: dict[Name, PartSpec] = {}
    """The reference's feeds, and which part of each a rank reads."""

    parameters: dict[Name, PartSpec] = {}
    """What is trained, by its name in the program."""

    operators: Annotated[tuple[dict[Name, Any], ...], Field(min_length=1)]
    """In order, as in ``model.graph``, with local shapes; ``ranks`` says which ranks run one, if not all do,
    and others may run one of the same name.
    ``part`` ({dim: group}) tells one whose result depends on where its part begins, as a table of which a
    rank has some rows. The collectives are all_reduce, all_gather, reduce_scatter, broadcast, reduce,
    all_to_all, all_to_all_v, neighbor_exchange, neighbor_exchange_v2, send, receive, barrier."""

    loss: Name
    """The operator whose result is the loss, on the ranks that have it."""

    gradients: tuple[GradientSpec, ...] = ()
    """What becomes of gradients before the update; what no entry fits is updated with what the rank has."""

    @model_validator(mode="after")
    def _is_written(self) -> ProgramSpec:
        self.entries()
        return self

    def entries(self) -> tuple[Entry, ...]:
        """The operators as they are written."""
        return entries(self.operators, "operators", unique=False)
