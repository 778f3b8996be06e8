"""Point-to-point and uneven exchanges that a hand-written program may call, with their arguments for each
rank.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, TypeVar

from pydantic import AliasChoices, Field

from simcluster.document import Name, NonNegativeInt, PositiveInt, Section
from simcluster.errors import PlanError
from simcluster.model import Entry
from simcluster.plan.spec import WORLD, GroupName

Shape = Annotated[tuple[PositiveInt, ...], Field(min_length=1)]
Item = TypeVar("Item")

NO_NEIGHBOR = -1
"""Marks a missing neighbour."""

AROUND = 8
"""The neighbours of a part of an image, clockwise from the one above."""


class ExchangeCall(Section):
    """What every exchange is told."""

    group: GroupName = WORLD[0]
    """The group in which ranks are counted, by their places in it."""


class SendCall(Section):
    """Gives a tensor to one rank, which receives it."""

    to: NonNegativeInt | dict[NonNegativeInt, NonNegativeInt] = Field(
        validation_alias=AliasChoices("to", "dest_rank")
    )
    """The rank, or the rank for each that sends: ``{0: 4, 1: 5}``."""

    sr_tag: NonNegativeInt = 0
    """Sends and receives of one tag meet, in the order in which they are written."""


class ReceiveCall(Section):
    """Gets a tensor from one rank, which sends it."""

    source: NonNegativeInt | dict[NonNegativeInt, NonNegativeInt] = Field(
        validation_alias=AliasChoices("from", "src_rank")
    )
    """The rank, or the rank for each that receives: ``{4: 0, 5: 1}``."""

    shape: Shape
    """What it gets."""

    dtype: Name | None = None
    """Its number format; that of activations if absent."""

    sr_tag: NonNegativeInt = 0
    """Sends and receives of one tag meet, in the order in which they are written."""


Ids = tuple[int, ...]


class NeighborExchangeCall(ExchangeCall):
    """Any tensors to any ranks: the inputs, one for each of ``send_rank_ids``."""

    send_rank_ids: Ids | dict[NonNegativeInt, Ids]
    """To whom the inputs go, in their order; or that for each rank: ``{0: [1], 1: [0, 2], 2: [1]}``."""

    recv_rank_ids: Ids | dict[NonNegativeInt, Ids]
    """From whom the results come, in their order."""

    recv_shapes: tuple[Shape, ...] | dict[NonNegativeInt, tuple[Shape, ...]]
    """The shapes of the results."""

    send_shapes: tuple[Shape, ...] | dict[NonNegativeInt, tuple[Shape, ...]] | None = None
    """The shapes of the inputs, which are checked if they are given."""


class NeighborExchangeV2Call(ExchangeCall):
    """Halos of a picture [batch, channels, height, width] with the neighbours around it."""

    send_rank_ids: Ids | dict[NonNegativeInt, Ids]
    """Eight, clockwise from above: who gets the edge or corner there; -1: nobody."""

    send_lens: Ids | dict[NonNegativeInt, Ids]
    """How many rows go up and down, and columns left and right: top, bottom, left, right."""

    recv_rank_ids: Ids | dict[NonNegativeInt, Ids]
    """Eight, clockwise from above: whose edge or corner is put there; -1: nobody's."""

    recv_lens: Ids | dict[NonNegativeInt, Ids]
    """How many rows and columns come: top, bottom, left, right."""

    data_format: Literal["NCHW"] = "NCHW"
    """The dims of the picture."""


class AllToAllVCall(ExchangeCall):
    """Part i of a flat tensor to rank i, in parts of any sizes."""

    send_numel_list: Ids | dict[NonNegativeInt, Ids]
    """Elements for each member of the group, in order; or that for each rank."""

    recv_numel_list: Ids | dict[NonNegativeInt, Ids]
    """Elements from each member of the group, in order."""


EXCHANGES: Mapping[str, type[ExchangeCall]] = {
    "neighbor_exchange": NeighborExchangeCall,
    "neighbor_exchange_v2": NeighborExchangeV2Call,
    "all_to_all_v": AllToAllVCall,
}
"""Exchanges that all members of a group run as one entry, by the name in the program."""

PAIRS = {"send": SendCall, "receive": ReceiveCall}
"""Send and receive, by the name in the program."""


def rank_value(entry: Entry, key: str, written: Item | Mapping[int, Item], rank: int) -> Item:
    """The argument of one rank; PlanError if there is none for it."""
    if not isinstance(written, Mapping):
        return written
    if rank not in written:
        raise PlanError(
            f"'{entry.name}' ({entry.op}): nothing is written for rank {rank}, which runs it",
            path=f"{entry.path}.{key}",
        )
    own: Item = written[rank]
    return own


def check_length(entry: Entry, key: str, values: Sequence[int], count: int, what: str) -> None:
    """PlanError unless an argument has so many numbers."""
    if len(values) != count:
        raise PlanError(
            f"'{entry.name}' ({entry.op}): {len(values)} numbers, not {count}: {what}",
            path=f"{entry.path}.{key}",
        )
