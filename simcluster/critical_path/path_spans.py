"""The critical path in time, to be drawn: where it is when, and why it went on there."""

from __future__ import annotations

from typing import Any

import numpy as np

from simcluster.critical_path.critical_entries import CriticalEntries, PathCause
from simcluster.critical_path.entry_graph import EntryGraph
from simcluster.number_arrays import Ints
from simcluster.program import PlacedProgram
from simcluster.trace import NameIndex, number_by_appearance

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
        texts = [
            names.number(f"{instances[instance]} {actions[action]}".strip())
            for instance, action in different.T.tolist()
        ]
        name[positions] = np.array(texts, dtype=np.int64)[which.reshape(-1)]
        known = [streams.number(str(own.name)) for own in part.streams]
        stream[positions] = np.array(known, dtype=np.int64)[number]
    same = (np.diff(of_class, prepend=-1) == 0) & (np.diff(name, prepend=-1) == 0)
    begins = ~(same & (np.diff(stream, prepend=-1) == 0))
    merged = bool(np.count_nonzero(begins) > MOST_SPANS)
    if merged:
        begins = ~same
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(begins)) - 1
    streams_met, stream = _by_appearance(stream[first], streams)
    names_met, name = _by_appearance(name[first], names)
    return {
        "class": of_class[first].tolist(),
        "stream": stream.tolist(),
        "name": name.tolist(),
        "start_ns": graph.starts[path.entries[first]].tolist(),
        "end_ns": graph.ends[path.entries[last]].tolist() if len(first) else [],
        "cause": path.causes[first].tolist(),
        "streams": streams_met,
        "names": names_met,
        "causes": [cause.name.lower() for cause in PathCause],
        "merged": merged,
    }


def _by_appearance(numbers: Ints, known: NameIndex) -> tuple[list[str], Ints]:
    """The names that occur, in the order of the path, and the numbers as numbers of these."""
    names, (met, which) = list(known.names), number_by_appearance(numbers)
    return [names[number] for number in met.tolist()], which
