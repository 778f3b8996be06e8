"""How long every collective, transfer and copy lets kernels wait, by its name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from simcluster.analysis.timeline.idle_gaps import PIPELINE_WAIT, GapPieces, GroupGaps
from simcluster.engine import NOTHING, GroupTiming, Timing
from simcluster.number_arrays import Ints
from simcluster.program import PlacedProgram
from simcluster.trace import NameIndex

Place = tuple[int, int]
"""A code, and an instruction of it."""


def exposed_times(placed: PlacedProgram, timing: Timing) -> Mapping[Place, int]:
    """Nanoseconds by instruction, summed over all ranks and steps: the waits that a step's breakdown charges
    to communication, offload and inputs, not those for other stages.
    """
    spent: defaultdict[Place, int] = defaultdict(int)
    weights = np.array(placed.classes.sizes, dtype=np.int64)
    for group in timing.groups:
        own = weights[np.array(group.group.indices)]
        causes = NameIndex()
        gaps = GroupGaps(group, range(len(own)), placed.program.stage_axis, causes)
        by_entry = np.zeros(group.group.part.num_entries, dtype=np.int64)
        for piece in gaps.pieces(timing.end, placed.num_stages):
            _charge(by_entry, piece.flat(), causes.number(PIPELINE_WAIT), own, group)
        for place, exposed, _ in group.group.part.sums_by_place(by_entry):
            spent[place] += exposed
    return spent


def _charge(by_entry: Ints, piece: GapPieces, left_out: int, sizes: Ints, group: GroupTiming) -> None:
    """Adds pieces to the entries that they are due to, but for those of one cause."""
    kept = (piece.entry != NOTHING) & (piece.cause != left_out)
    gap, column, start, end, _, entry = (values[kept] for values in piece)
    part = group.group.part
    if not len(entry) or gap[0] < part.num_entries:
        np.add.at(by_entry, entry, (end - start) * sizes[column])
        return
    # Behind the last kernel all entries of a stream are one piece: each gets the time that it was under way.
    for last, of_column, since, until in zip(entry, column, start, end, strict=True):
        first = int(part.begins[np.searchsorted(part.begins, last, side="right") - 1])
        rows, own = np.arange(first, int(last) + 1), slice(of_column, of_column + 1)
        begun, over = group.begins(rows, own)[1][:, 0], group.ends(rows, own)[:, 0]
        under_way = np.maximum(np.minimum(over, until) - np.maximum(begun, since), 0)
        under_way[-1] += until - since - under_way.sum()
        by_entry[rows] += under_way * sizes[of_column]
