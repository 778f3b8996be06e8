"""The entries of a critical path, cut into what they are made of; the parts sum to the run."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import fields

import numpy as np

from simcluster.critical_path.critical_entries import CriticalEntries
from simcluster.critical_path.entry_graph import EntryBlock, EntryGraph
from simcluster.deferred_dataclass import dataclass
from simcluster.number_arrays import Ints


class PartKind(enum.IntEnum):
    """What a part of the path is; all but ``ARITHMETIC`` a faster processor would leave as they are."""

    ARITHMETIC = 0
    """Kernels that are bound by the units that compute."""
    MEMORY = 1
    """Kernels that are bound by the memory's bandwidth."""
    LAUNCH = 2
    """Launches of kernels, and dispatch by the host."""
    SLOWED = 3
    """What kernels took longer because communication ran beside them."""
    COMMUNICATION = 4
    """Collectives, transfers and copies, as long as they take alone on the cluster."""
    CONTENTION = 5
    """What those took longer, on links that were shared or degraded."""


@dataclass(frozen=True)
class PathParts:
    """Arrays [parts], in the order of time; their ``spent`` sum to the end of the run."""

    position: Ints
    """The place on the path of the entry that it is a part of."""
    kind: Ints
    """A ``PartKind``."""
    code: Ints
    """The block of instructions that it belongs to; -1 where it is of no single instruction."""
    place: Ints
    """The instruction in it, or -1."""
    spent: Ints
    """Nanoseconds."""

    @classmethod
    def of(cls, graph: EntryGraph, path: CriticalEntries) -> PathParts:
        """The parts of a path."""
        durations = (graph.ends - graph.starts)[path.entries]
        rows = [cls(*np.zeros((5, 0), dtype=np.int64))]
        for block, positions, entry, column in graph.by_block(path.entries):
            stream = np.searchsorted(block.part.begins, entry, side="right") - 1
            for own in np.unique(stream).tolist():
                chosen = stream == own
                cut = _kernels if own == block.part.compute else _communication
                places = entry[chosen] - block.part.begins[own]
                spent = durations[positions[chosen]]
                rows.extend(cut(block, own, positions[chosen], places, column[chosen], spent))
        columns = [np.concatenate([getattr(row, field.name) for row in rows]) for field in fields(cls)]
        kept = columns[-1] > 0
        order = np.lexsort((columns[3], columns[1], columns[0]))
        order = order[kept[order]]
        return cls(*(column[order] for column in columns))


def _kernels(
    block: EntryBlock, number: int, position: Ints, entry: Ints, column: Ints, duration: Ints
) -> Iterator[PathParts]:
    """The parts of segments of kernels."""
    segments = block.part.segments
    prices = [block.timing.group.codes[code].parts(own) for code, own in segments.kernels]
    codes = np.concatenate([np.full(len(own), code, dtype=np.int64) for code, own in segments.kernels])
    places = np.concatenate([own for _, own in segments.kernels])
    widest = max(price.shape[2] for price in prices)
    every = np.concatenate([np.broadcast_to(price, (*price.shape[:2], widest)) for price in prices])
    first = segments.first[segments.segment_of[entry]]
    count = segments.first[segments.segment_of[entry] + 1] - first
    row = np.repeat(np.arange(len(entry)), count)
    kernel = first[row] + np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    spent = every[kernel, :, np.minimum(column[row], widest - 1)]
    for kind in (PartKind.ARITHMETIC, PartKind.MEMORY, PartKind.LAUNCH):
        own = spent[:, kind]
        yield PathParts(position[row], np.full(len(row), kind), codes[kernel], places[kernel], own)
    slower = duration - np.bincount(row, spent.sum(axis=1), len(entry)).astype(np.int64)
    nothing = np.full(len(entry), -1)
    yield PathParts(position, np.full(len(entry), PartKind.SLOWED), nothing, nothing, slower)


def _communication(
    block: EntryBlock, number: int, position: Ints, entry: Ints, column: Ints, duration: Ints
) -> Iterator[PathParts]:
    """The parts of collectives, transfers and copies."""
    stream = block.part.streams[number]
    codes, places = np.array(stream.kinds, dtype=np.int64).reshape(-1, 2).T
    which = stream.kind_of[entry]
    alone = np.zeros(len(entry), dtype=np.int64)
    for kind in np.unique(which).tolist():
        own = which == kind
        alone[own] = block.timing.group.durations(*stream.kinds[kind])[column[own]]
    alone = np.minimum(alone, duration)
    for part, spent in ((PartKind.COMMUNICATION, alone), (PartKind.CONTENTION, duration - alone)):
        yield PathParts(position, np.full(len(entry), part), codes[which], places[which], spent)
