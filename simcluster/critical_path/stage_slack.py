"""By how much what the stages of a pipeline do could be later."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

import numpy as np

from simcluster.critical_path.entry_graph import EntryGraph
from simcluster.critical_path.slack import MOST_WITH_SLACK, entry_slacks
from simcluster.number_arrays import Ints
from simcluster.program import COMPUTE, PlacedProgram, charged_to


def stage_slacks(placed: PlacedProgram, graph: EntryGraph, steps: int) -> list[list[dict[str, Any]]] | None:
    """By stage, for its kernels and for its communication over each axis: ``seconds`` that a rank spends in
    them per step (the mean), how many of these have no slack (``critical_s``), and the ``least_slack_s`` and,
    of half of the time, ``median_slack_s``. None where there are too many entries.
    """
    if len(graph.node) > MOST_WITH_SLACK:
        return None
    slack, duration = entry_slacks(graph), graph.ends - graph.starts
    rows: defaultdict[tuple[int, str], list[_Rows]] = defaultdict(list)
    stages = np.array(placed.stages)
    sizes = np.array(placed.classes.sizes, dtype=np.int64)
    for block in graph.blocks:
        indices = np.array(block.timing.group.indices)
        own = slice(block.first, block.first + block.size)
        slacks, durations = (column[own].reshape(-1, block.width) for column in (slack, duration))
        weights = np.broadcast_to(sizes[indices], slacks.shape)
        for number, stream in enumerate(block.part.streams):
            charged = charged_to(stream.name, placed.program.stage_axis)
            axis = "" if stream.name == COMPUTE else "+".join(charged)
            entries = block.part.entries(number)
            for stage in np.unique(stages[indices]).tolist():
                chosen = stages[indices] == stage
                parts = (column[entries, chosen].ravel() for column in (slacks, durations, weights))
                rows[stage, axis].append(_Rows(*parts))
    ranks = np.bincount(stages, sizes).tolist()
    document: list[list[dict[str, Any]]] = [[] for _ in ranks]
    for (stage, axis), pieces in sorted(rows.items()):
        joined = _Rows(*(np.concatenate(columns) for columns in zip(*pieces, strict=True)))
        if joined.duration.any():
            document[stage].append({"axis": axis} | joined.figures(ranks[stage] * steps))
    return document


class _Rows(NamedTuple):
    """Entries: their slack and duration (ns), and how many ranks do each."""

    slack: Ints
    duration: Ints
    ranks: Ints

    def figures(self, shared: float) -> dict[str, float]:
        """What the document says of them; ``shared`` is ranks x steps."""
        takes = self.duration > 0
        slack, spent = self.slack[takes], (self.duration * self.ranks)[takes].astype(np.float64)
        order = np.argsort(slack, kind="stable")
        reached = np.cumsum(spent[order])
        return {
            "seconds": float(reached[-1]) * 1e-9 / shared,
            "critical_s": float(spent[slack == 0].sum()) * 1e-9 / shared,
            "least_slack_s": int(slack[order[0]]) * 1e-9,
            "median_slack_s": int(slack[order[np.searchsorted(reached, reached[-1] / 2)]]) * 1e-9,
        }
