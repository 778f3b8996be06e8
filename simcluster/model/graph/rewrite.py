"""What passes ask of operators: the same mathematics on other operands, or in another order."""

from __future__ import annotations

from typing import TypeAlias

from simcluster.deferred_dataclass import dataclass
from simcluster.model.graph.zigzag_order import Zigzag
from simcluster.work import DType


@dataclass(frozen=True, slots=True)
class Narrow:
    """On operands cast to a narrower format, with results in ``result``; None: there is no such kernel."""

    result: DType


@dataclass(frozen=True, slots=True)
class SparseRows:
    """The gradient of a table as ids and their rows, from the first inputs; None: it is no sum of rows.

    ``split``: where the ids are split, so are the rows; else every part gets those of all.
    """

    split: bool = False


@dataclass(frozen=True, slots=True)
class GroupBatch:
    """With statistics of each of ``ways`` equal parts of the batch; None: it has none."""

    ways: int


@dataclass(frozen=True, slots=True)
class Reorder:
    """On sequences whose tokens lie in this order; None: it does not matter where they stand.

    ValueError if that matters and the operator knows no order.
    """

    order: Zigzag


@dataclass(frozen=True, slots=True)
class RingTurns:
    """In so many turns over slices of a sequence of ``length`` tokens that need one another; None: they do
    not. ValueError if they do and the operator knows no turns. ``masked``: scores that a mask hides are
    computed, too.
    """

    turns: int
    length: int
    masked: bool = False


@dataclass(frozen=True, slots=True)
class SequenceSlice:
    """On slice ``index`` of sequences that are worked on slice by slice; None: each is so by itself.

    Inputs behind the first are those of all slices so far, each in its order (SliceAttention). ValueError if
    the operator needs the slices behind this one, or something else that no slice has.
    """

    index: int


@dataclass(frozen=True, slots=True)
class OneBarrier:
    """With statistics of its own part of a split dim, put together once; None: it waits for no statistics."""


Rewrite: TypeAlias = Narrow | SparseRows | GroupBatch | Reorder | RingTurns | SequenceSlice | OneBarrier
