"""The critical path: from the end of a run back through what each entry waited for, to its begin."""

from __future__ import annotations

import enum

import numpy as np

from simcluster.critical_path.entry_graph import EntryGraph
from simcluster.deferred_dataclass import dataclass
from simcluster.engine import NOTHING
from simcluster.number_arrays import Ints


class PathCause(enum.IntEnum):
    """What let an entry of the path begin when it did."""

    BEGIN = 0
    """Nothing: the run began."""
    STREAM = 1
    """The entry before on its stream was over."""
    DATA = 2
    """An entry of another stream of its rank was over, or what opens the gate that it waited at."""
    MEMBER = 3
    """The last of the ranks that meet was ready."""


@dataclass(frozen=True)
class CriticalEntries:
    """The entries of the path, from the begin of the run to its end, without a gap.

    ``entries`` are numbers in an ``EntryGraph``; ``causes`` say what each waited for last. Each starts when
    the one before ends, so that their durations sum to the end of the run.
    """

    entries: Ints
    causes: Ints

    @classmethod
    def of(cls, graph: EntryGraph) -> CriticalEntries:
        """The path of a run. Where several entries end at the moment that one waited for, the one before on
        its stream is taken, then one of its own rank, then that of the first class.
        """
        entries: list[int] = []
        causes: list[int] = []
        at = _last(graph)
        while at != NOTHING:
            entries.append(at)
            begun = int(graph.starts[at])
            late = int(graph.ready[at]) != begun
            if late and at in graph.gates.waits:
                at = _of_first_class(graph, graph.gates.opened_by(at, graph.ends))
                causes.append(PathCause.DATA)
                continue
            if late:
                members = graph.members_of(int(graph.node[at]))
                at = _of_first_class(graph, members[graph.ready[members] == begun])
            before = _before(graph, at, begun)
            causes.append(PathCause.MEMBER if late else _cause(graph, at, before))
            at = before
        chosen = np.array(entries[::-1], dtype=np.int64)
        takes = graph.ends[chosen] > graph.starts[chosen]
        return cls(chosen[takes], np.array(causes[::-1], dtype=np.int64)[takes])


def _last(graph: EntryGraph) -> int:
    """The first of the entries that end with the run; ``NOTHING`` if nothing takes any time."""
    if not graph.end:
        return NOTHING
    return _of_first_class(graph, np.flatnonzero(graph.ends == graph.end))


def _of_first_class(graph: EntryGraph, entries: Ints) -> int:
    """Of some entries that of the first class, and of several the first: however classes are grouped."""
    return int(entries[np.argmin(graph.classes_of(entries))])


def _before(graph: EntryGraph, at: int, begun: int) -> int:
    """The entry whose end let one begin; ``NOTHING`` at the begin of the run."""
    if not begun:
        return NOTHING
    for before in (int(graph.previous[at]), *graph.waits_of(at)):
        if before != NOTHING and int(graph.ends[before]) == begun:
            return before
    raise AssertionError(f"entry {at} begins at {begun} ns, and nothing that it waits for ends then")


def _cause(graph: EntryGraph, at: int, before: int) -> PathCause:
    if before == NOTHING:
        return PathCause.BEGIN
    return PathCause.STREAM if before == graph.previous[at] else PathCause.DATA
