"""Slack: by how much an entry could end later before the run does, everything else as it is."""

from __future__ import annotations

import numpy as np

from simcluster.critical_path.entry_graph import EntryGraph
from simcluster.engine import NOTHING
from simcluster.number_arrays import Ints

MOST_WITH_SLACK = 2**21
"""Entries up to which slack is worked out: some seconds."""


def entry_slacks(graph: EntryGraph) -> Ints:
    """By entry the nanoseconds by which it could end later while the run ends as it does.

    All entries take as long as they did: what a shift changes of links that are shared, and of kernels beside
    communication, is not counted. What meets has one slack. An entry of the critical path has none.
    """
    latest = np.full(len(graph.node), graph.end, dtype=np.int64)
    # What ends later comes first, of those the later to start; only entries without duration are left to
    # chance, and are looked at again as long as that changes anything.
    order = np.lexsort((graph.starts, graph.ends))[::-1]
    while _lowered(latest, order, graph) | _lowered_by_gates(latest, graph):
        pass
    return np.asarray(latest[graph.node] - graph.ends, dtype=np.int64)


def _lowered_by_gates(latest: Ints, graph: EntryGraph) -> bool:
    """Lowers the latest ends of what opens gates to those of who waits there later; whether any was lowered.

    Of several that open a gate, all count as needed.
    """
    lowered = False
    for gate, opening in graph.gates.openers.items():
        waiting = np.array(
            [entry for entry, awaited in graph.gates.waits.items() if awaited == gate], dtype=np.int64
        )
        if not len(waiting):
            continue
        waiting = waiting[np.argsort(graph.ends[waiting], kind="stable")]
        bounds = np.minimum.accumulate(latest[graph.node[waiting]][::-1])[::-1]
        first = np.searchsorted(graph.ends[waiting], graph.ends[opening])
        needed = first < len(waiting)
        nodes, bound = graph.node[opening[needed]], bounds[first[needed]]
        lowered |= bool((latest[nodes] > bound).any())
        np.minimum.at(latest, nodes, bound)
    return lowered


def _lowered(latest: Ints, order: Ints, graph: EntryGraph) -> bool:
    """Lowers the latest ends of what entries wait for; whether anything is left to lower."""
    known: list[int] = latest.tolist()
    first, awaited = graph.first_wait, graph.awaited.tolist()
    columns = graph.node, graph.starts, graph.ends, graph.previous, first[:-1], first[1:]
    nodes: list[int] = graph.node.tolist()
    for own, start, end, previous, wait, last in zip(
        *(column[order].tolist() for column in columns), strict=True
    ):
        begin = known[own] - end + start
        for before in (previous, *awaited[wait:last]):
            if before != NOTHING and known[nodes[before]] > begin:
                known[nodes[before]] = begin
    latest[:] = known
    begins = latest[graph.node] - graph.ends + graph.starts
    before = np.flatnonzero(graph.previous != NOTHING)
    return bool(
        (latest[graph.node[graph.previous[before]]] > begins[before]).any()
        or (latest[graph.node[graph.awaited]] > np.repeat(begins, np.diff(first))).any()
    )
