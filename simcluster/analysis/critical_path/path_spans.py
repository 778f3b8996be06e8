"""The critical path in time, to be drawn: where it is when, and why it went on there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simcluster.analysis.critical_path.critical_entries import Cause, CriticalEntries
from simcluster.analysis.critical_path.entry_graph import EntryGraph
from simcluster.analysis.placed_program import PlacedProgram
from simcluster.analysis.timeline import NameIndex

Ints = NDArray[np.int64]

MOST_SPANS = 20_000
"""Spans beyond which those of one class that follow one another are put together."""


def spans_document(placed: PlacedProgram, graph: EntryGraph, path: CriticalEntries) -> dict[str, Any]:
    """Columns of the path's spans in the order of time: each begins when the one before ends.

    ``class``, ``stream`` (an index of ``streams``), ``name`` (of ``names``: instance and action of the
    schedule), ``start_ns``, ``end_ns``, and ``cause``: what let it begin (of ``causes``). What follows on one
    stream in one action is one span; where that leaves too many, ``merged`` is true, and all that follows on
    one class in one action is one.
    """
    streams, names = NameIndex(), NameIndex()
    of_class, stream, name = (np.zeros(len(path.entries), dtype=np.int64) for _ in range(3))
    for block, positions, entry, column in graph.by_block(path.entries):
        part = block.part
        of_class[positions] = np.array(block.timing.group.indices)[column]
        instances, of_instance = part.instances
        actions, of_action = part.one_step.actions, part.every_step(part.one_step.action)
        number = np.searchsorted(part.begins, entry, side="right") - 1
        execution = np.concatenate([own.execution for own in part.streams])[entry]
        pairs = np.stack([of_instance[execution], of_action[execution]])
        different, which = np.unique(pairs, axis=1, return_inverse=True)
        numbers = [
            names.number(f"{instances[instance]} {actions[action]}".strip())
            for instance, action in different.T.tolist()
        ]
        name[positions] = np.array(numbers, dtype=np.int64)[which.reshape(-1)]
        known = [streams.number(str(own.name)) for own in part.streams]
        stream[positions] = np.array(known, dtype=np.int64)[number]
    name, texts = _as_they_come(name, list(names.names))
    stream, used = _as_they_come(stream, list(streams.names))
    same = (np.diff(of_class, prepend=-1) == 0) & (np.diff(name, prepend=-1) == 0)
    begins = ~(same & (np.diff(stream, prepend=-1) == 0))
    merged = bool(np.count_nonzero(begins) > MOST_SPANS)
    if merged:
        begins = ~same
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(begins)) - 1
    return {
        "class": of_class[first].tolist(),
        "stream": stream[first].tolist(),
        "name": name[first].tolist(),
        "start_ns": graph.starts[path.entries[first]].tolist(),
        "end_ns": graph.ends[path.entries[last]].tolist() if len(first) else [],
        "cause": path.causes[first].tolist(),
        "streams": used,
        "names": texts,
        "causes": [cause.name.lower() for cause in Cause],
        "merged": merged,
    }


def _as_they_come(numbers: Ints, names: Sequence[str]) -> tuple[Ints, list[str]]:
    """Numbers of names, and these, in the order in which they come first."""
    different, first, which = np.unique(numbers, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return rank[which.reshape(-1)], [names[number] for number in different[order].tolist()]
