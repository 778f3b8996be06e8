"""The arrays of a run, from the priced classes of its workloads and the links they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from simcluster.cluster import SCALE
from simcluster.engine.class_meetings import Who
from simcluster.engine.class_program import LinkedStream
from simcluster.engine.compiled.arrays import (
    CHANGE,
    ENTRY,
    FOUND,
    KIND,
    LINK,
    LOAD,
    NEVER,
    NODE,
    NONE,
    PACE,
    PHASE,
    ROW,
    SEGMENT,
    SLOT,
    STREAM,
    STRETCHED,
    TOTALS,
    TRAFFIC,
    TRANSFER,
    VECTOR,
    WORKLOAD,
    Arrays,
    Ints,
    Records,
)
from simcluster.engine.fabric import Links, Transfer
from simcluster.engine.pace import PARTS
from simcluster.engine.priced_classes import PricedClasses
from simcluster.engine.segments import Segments
from simcluster.program import COMPUTE

MANY_KERNELS = 1 << 16
"""Slowed segments, and kernels of them, that are recorded before more room is made."""


@dataclass(frozen=True)
class StreamRows:
    """Where the streams of one class are: ``first`` is the number of the first."""

    first: int
    lengths: list[int]
    start_rows: list[int]
    end_rows: list[int]
    pace: int


@dataclass
class TableBuilder:
    """Collects the records of ``Arrays``, class after class."""

    links: Links
    """Links that all share."""
    streams: list[tuple[int, ...]] = field(default_factory=list)
    """The first fields of ``STREAM``."""
    entries: list[tuple[Ints, Ints, Ints]] = field(default_factory=list)
    """Columns of ``ENTRY``, stream after stream."""
    num_entries: int = 0
    """How many rows these have."""
    kinds: list[tuple[int, ...]] = field(default_factory=list)
    """Rows of ``KIND``."""
    slots: dict[object, int] = field(default_factory=dict)
    """Who meets, with their numbers."""
    slot_nodes: list[int] = field(default_factory=list)
    """By slot: on how many links its flows are at most."""
    transfers: dict[Transfer, int] = field(default_factory=dict)
    """Different transfers, with their numbers."""
    segments: list[Segments] = field(default_factory=list)
    """Those of different classes, one after another."""
    num_segments: int = 0
    """How many they are."""
    paces: list[tuple[int, int]] = field(default_factory=list)
    """(Stream of kernels, the most kernels of a segment) of classes that give way."""
    starts: int = 0
    """Entries of all streams."""
    ends: int = 0
    """Those of streams of communication."""
    known: dict[int, tuple[list[int], int]] = field(default_factory=dict)
    """By priced Program: first entries of its streams, and its first segment."""
    workloads: list[int] = field(default_factory=lambda: [0])
    """First streams of all workloads, and one more."""

    def add_workload(self, classes: PricedClasses) -> list[StreamRows]:
        """Adds all classes of a workload."""
        number = len(self.workloads) - 1
        rows = [self._add_class(number, classes, index) for index in range(len(classes.programs))]
        self.workloads.append(len(self.streams))
        return rows

    def _add_class(self, workload: int, classes: PricedClasses, index: int) -> StreamRows:
        priced, slows = classes.programs[index], classes.slows(index)
        streams = priced.linked.streams
        if id(priced) not in self.known:
            segments = priced.segments_by_number
            entries = [
                self.add_entries(
                    stream,
                    segments.which
                    if stream.name == COMPUTE
                    else priced.kinds(classes.workload.program, number).which,
                )
                for number, stream in enumerate(streams)
            ]
            self.known[id(priced)] = entries, self.add_segments(segments)
        entries, segment_row = self.known[id(priced)]
        kinds = [
            [] if stream.name == COMPUTE else self._kinds(workload, classes, index, number, slows)
            for number, stream in enumerate(streams)
        ]
        longest = priced.segments_by_number.longest if slows else None
        return self.add_streams(workload, streams, entries, segment_row, kinds, longest)

    def add_streams(
        self,
        workload: int,
        streams: Sequence[LinkedStream],
        entries: Sequence[int],
        segment_row: int,
        kinds: Sequence[Sequence[tuple[int, ...]]],
        longest: int | None,
    ) -> StreamRows:
        """Adds the streams of one class, with the rows of their first entries, that of its first segment, and
        by stream its kinds of communication; ``longest``: the most kernels of a segment, if something slows
        them.
        """
        first = len(self.streams)
        pace = NONE if longest is None else len(self.paces)
        rows = StreamRows(first, [len(stream) for stream in streams], [], [], pace)
        for number, stream in enumerate(streams):
            kernels = stream.name == COMPUTE
            rows.start_rows.append(self.starts)
            rows.end_rows.append(NONE if kernels else self.ends)
            row = segment_row if kernels else len(self.kinds)
            placed = (self.starts, rows.end_rows[-1], row)
            self.streams.append((entries[number], len(stream), first, kernels, pace, workload, *placed))
            self.starts += len(stream)
            self.ends += 0 if kernels else len(stream)
            self.kinds += kinds[number]
            if kernels and longest is not None:
                self.paces.append((first + number, longest))
        return rows

    def add_entries(self, stream: LinkedStream, what: Ints) -> int:
        """Adds the entries of a stream; the row of the first."""
        first = self.num_entries
        self.num_entries += len(stream)
        self.entries.append((stream.wait_stream, stream.wait_position, what))
        return first

    def add_segments(self, segments: Segments) -> int:
        """Adds the segments of a class; the row of the first."""
        first = self.num_segments
        self.segments.append(segments)
        self.num_segments += len(segments.first) - 1
        return first

    def add_transfer(self, transfer: Transfer) -> int:
        """The number of a transfer."""
        return self.transfers.setdefault(transfer, len(self.transfers))

    def add_slot(self, who: tuple[int, Who], nodes: int) -> int:
        """The slot of those who meet, whose flows are on up to so many links."""
        slot = self.slots.setdefault(who, len(self.slots))
        if slot == len(self.slot_nodes):
            self.slot_nodes.append(nodes)
        self.slot_nodes[slot] = max(self.slot_nodes[slot], nodes)
        return slot

    def most_links(self, transfer: Transfer) -> int:
        """On how many links a phase of a transfer is at most."""
        return max((self._row_size(phase.vector) for phase in transfer.phases), default=0)

    def _kinds(
        self, workload: int, classes: PricedClasses, index: int, number: int, slows: bool
    ) -> list[tuple[int, ...]]:
        """Rows of ``KIND`` for what a class does on one of its communication streams."""
        rows: list[tuple[int, ...]] = []
        done = classes.communications(index, number)
        for moves, takes, met in zip(done.moves, done.takes, done.met, strict=True):
            who, size = met or ((index, number), 1)
            units, memory = (takes.units, takes.memory) if takes and slows else (NONE, 0)
            if isinstance(moves, Transfer):
                slot = self.add_slot((workload, who), self.most_links(moves))
                rows.append((slot, size, NONE, self.add_transfer(moves), units, memory))
            else:
                rows.append((self.add_slot((workload, who), 0), size, moves, NONE, units, memory))
        return rows

    def _row_size(self, vector: int) -> int:
        first, end = self.links.vectors.offsets[vector : vector + 2].tolist()
        return int(end - first)

    def arrays(self) -> Arrays:
        """A run of everything added, in which nothing has happened."""
        links, vectors, background = self.links, self.links.vectors, self.links.background
        changes = sorted(links.changes, key=lambda change: (change.time, change.link))
        phases = [phase for transfer in self.transfers for phase in transfer.phases]
        traffic = [self._row_size(flow.vector) for flow in background]
        durations = _joined([segments.durations for segments in self.segments])
        segments = _joined([np.diff(segments.first) for segments in self.segments])
        totals = _records(
            TOTALS, 1, armed=NEVER, most_kernels=max((most for _, most in self.paces), default=0)
        )
        slots = self._slots([*self.slot_nodes, *traffic])
        nodes = _records(NODE, int(slots["first_node"][-1]), next=NONE, previous=NONE)
        nodes["slot"] = np.repeat(np.arange(len(slots) - 1), np.diff(slots["first_node"]))
        paces = self._paces()
        # As many events can be under way; others in the heap are stale.
        events = len(self.streams) + 2 * len(slots) + len(paces) + len(changes) + len(self.workloads)
        parts = sum(most for _, most in self.paces) * PARTS
        return Arrays(
            totals=totals,
            streams=self._streams(),
            entries=_records(
                ENTRY,
                self.num_entries,
                wait_stream=_joined([streams for streams, _, _ in self.entries]),
                wait_position=_joined([positions for _, positions, _ in self.entries]),
                what=_joined([what for _, _, what in self.entries]),
            ),
            kinds=_table(KIND, self.kinds),
            transfers=_records(
                TRANSFER,
                len(self.transfers) + 1,
                latency=[*(transfer.latency_ns for transfer in self.transfers), 0],
                late=[*(bool(transfer.late) for transfer in self.transfers), 0],
                first_phase=_offsets([len(transfer.phases) for transfer in self.transfers]),
            ),
            phases=_table(PHASE, [(phase.vector, phase.num_bytes, phase.cap) for phase in phases]),
            vectors=_records(VECTOR, len(vectors) + 1, first_load=vectors.offsets),
            loads=_records(LOAD, len(vectors.links), link=vectors.links, load=vectors.loads),
            slots=slots,
            links=_records(LINK, len(links.capacity), first_node=NONE, capacity=links.capacity),
            nodes=nodes,
            segments=_records(
                SEGMENT,
                len(durations) + 1,
                first_part=_offsets(segments) * PARTS,
                time=np.append(durations, 0),
            ),
            work=_joined([segments.parts.ravel() for segments in self.segments]),
            paces=paces,
            part_end=_zeros(parts),
            workloads=_records(WORKLOAD, len(self.workloads), first_stream=self.workloads),
            changes=_table(CHANGE, [(change.time, change.link, change.capacity) for change in changes]),
            traffic=_table(
                TRAFFIC,
                [
                    (flow.vector, flow.begin, NEVER if flow.end is None else flow.end, flow.rate)
                    for flow in background
                ],
            ),
            heap=_records(ROW, 2 * events + 1024),
            ends_heap=_records(ROW, 2 * len(slots) + 64),
            stack=_zeros(len(self.streams) + 1),
            touched=_zeros(len(links.capacity)),
            marked=_zeros(len(links.capacity)),
            reached=_zeros(len(slots)),
            rising=_zeros(len(slots)),
            flow_rates=_records(FOUND, len(slots)),
            starts=_zeros(self.starts),
            arrivals=_zeros(self.ends),
            ends=_zeros(self.ends),
            stretched=_records(STRETCHED, MANY_KERNELS if self.paces else 1),
            kernel_end=_zeros(MANY_KERNELS * bool(self.paces) + parts),
        )

    def _streams(self) -> Records:
        streams = _records(STREAM, len(self.streams), first_waiter=NONE, next_waiter=NONE, next_member=NONE)
        given = np.array(self.streams, dtype=np.int64).reshape(len(self.streams), -1)
        for name, column in zip(STREAM.names or (), given.T, strict=False):
            streams[name] = column
        return streams

    @staticmethod
    def _slots(nodes: Sequence[int]) -> Records:
        none = dict.fromkeys(("first_member", "last_member", "own", "stream"), NONE)
        return _records(SLOT, len(nodes) + 1, first_node=_offsets(nodes), end=NEVER, over=1, **none)

    def _paces(self) -> Records:
        first = _offsets([most for _, most in self.paces])[:-1] * PARTS
        paces = _records(PACE, len(self.paces), first_part=first, segment=NONE, order=NONE)
        paces["stream"] = [stream for stream, _ in self.paces]
        paces["rate_units"] = paces["rate_memory"] = SCALE
        return paces


def _records(kind: np.dtype[Any], count: int, **columns: Any) -> Records:
    """So many records, zero but for some columns."""
    records = np.zeros(count, dtype=kind)
    for name, column in columns.items():
        records[name] = column
    return records


def _table(kind: np.dtype[Any], rows: Sequence[tuple[float, ...]]) -> Records:
    """Records with these values."""
    return np.array(rows, dtype=kind).reshape(len(rows))


def _zeros(count: int) -> Ints:
    return np.zeros(count, dtype=np.int64)


def _joined(arrays: Sequence[Ints]) -> Ints:
    return np.concatenate([_zeros(0), *arrays])


def _offsets(counts: Sequence[int] | Ints) -> Ints:
    sums = _zeros(len(counts) + 1)
    np.cumsum(counts, out=sums[1:])
    return sums
