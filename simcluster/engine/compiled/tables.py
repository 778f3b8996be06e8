"""The arrays of a run, from the priced classes of its workloads and the links they share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from simcluster.cluster import SCALE
from simcluster.deferred_dataclass import dataclass
from simcluster.engine.communication import ClassGates, Links, Transfer, Who
from simcluster.engine.compiled.arrays import KINDS, LARGEST, NEVER, NONE, Arrays, Records
from simcluster.engine.linking import PARTS, LinkedPart
from simcluster.engine.pricing import PricedClasses, PricedGroup
from simcluster.engine.timing import StreamTimes
from simcluster.number_arrays import Ints, offsets
from simcluster.program import StepGate

MANY_KERNELS = 1 << 16
"""Slowed segments, and kernels of them, that are recorded before more room is made."""


@dataclass(frozen=True)
class GroupRows:
    """Where the classes of a group are: by class its first stream and its pace, or ``NONE``; by stream its
    kinds of communication [classes, kinds], the rows of its starts and ends, and by class who always meet; by
    entry which of these rows has its end, or ``NONE``.
    """

    streams: Ints
    paces: Ints
    kinds: Sequence[Records]
    rows: Sequence[tuple[slice, slice, Ints]]
    recorded: Ints

    def times(self, arrays: Arrays) -> Sequence[StreamTimes]:
        """Its own of all times, by stream."""
        return [
            StreamTimes(arrays.begun[begun].reshape(shape), arrays.ends[ends].reshape(shape), meeting)
            for begun, ends, meeting in self.rows
            for shape in [(-1, int(meeting.max()) + 1)]
        ]


class _Rows:
    """An array that is collected part by part."""

    def __init__(self, empty: Records) -> None:
        self.parts, self.count = [empty], 0

    def add(self, rows: Records) -> int:
        """Adds some; says where they begin."""
        self.parts.append(rows)
        self.count += len(rows)
        return self.count - len(rows)

    def joined(self) -> Records:
        """All of them."""
        return np.concatenate(self.parts)


class TableBuilder:
    """Collects the records of ``Arrays`` for runs over these links, workload after workload, group after
    group of their classes.
    """

    def __init__(self, links: Links) -> None:
        self.links = links
        names = "streams", "entries", "waits", "segments", "kinds", "gated", "opens"
        collected = [_Rows(records(name, 0)) for name in names]
        self.streams, self.entries, self.waits, self.segments, self.kinds, self.gated, self.opens = collected
        self.work = _Rows(zeros(0))
        # (Stream of kernels, the most kernels of a segment) of classes that give way.
        self.paces: list[tuple[int, int]] = []
        # Ends of all entries of all streams of all classes, and starts of those that communicate.
        self.ends = self.begun = 0
        # By linked part the row of its first entry.
        self.known: dict[int, int] = {}
        # The first streams of all workloads, and one more.
        self.workloads = [0]
        # Who meets, and different transfers, with their numbers; different gates with their first rows.
        self.slots: dict[object, int] = {}
        self.transfers: dict[Transfer, int] = {}
        self.gates: dict[StepGate, int] = {}
        # The steps of the only workload that may have gates.
        self.steps = 1

    def add_workload(self, classes: PricedClasses) -> list[GroupRows]:
        """Adds all classes of a workload, whose streams lie class after class."""
        self.steps = classes.workload.steps
        ends = offsets([len(classes.groups[group].part.streams) for group, _ in classes.place_of])
        first = self.streams.count + ends
        streams = records("streams", ends[-1], awaited=LARGEST, last_waiter=NONE, next_member=NONE)
        streams["workload"] = len(self.workloads) - 1
        rows = [
            self._add_group(classes, number, first[list(group.indices)], streams)
            for number, group in enumerate(classes.groups)
        ]
        self.streams.add(streams)
        self.workloads.append(self.streams.count)
        return rows

    def _add_group(self, classes: PricedClasses, number: int, first: Ints, streams: Records) -> GroupRows:
        """Adds the classes of a group, whose first streams these are."""
        group = classes.groups[number]
        part, width = group.part, len(group.indices)
        slowed = classes.slows(group)
        recorded = part.rows(every=slowed or not group.many)
        entry, segments = self._first_entry(part, recorded), self._add_segments(group, slowed=slowed)
        paces = np.full(width, NONE)
        if slowed:
            paces = len(self.paces) + np.arange(width)
            self.paces += [(stream, part.segments.longest) for stream in (first + part.compute).tolist()]
        every, rows = [], []
        for which, stream in enumerate(part.streams):
            own = first - self.streams.count + which
            kernels = which == part.compute
            kinds = (
                records("kinds", 0).reshape(width, 0) if kernels else self._add_kinds(classes, number, which)
            )
            places = (
                segments if kernels else self.kinds.add(kinds.ravel()) + kinds.shape[1] * np.arange(width)
            )
            meeting = np.arange(width) if kernels else _who_always_meet(kinds)
            meetings = int(meeting.max()) + 1
            begun, ends = self.begun, self.ends
            self.ends += int(recorded[part.entries(which)].max(initial=NONE) + 1) * meetings
            self.begun += 0 if kernels else len(stream) * meetings
            rows.append((slice(begun, self.begun), slice(ends, self.ends), meeting))
            columns = {
                "first_entry": entry + part.begins[which],
                "length": len(stream),
                "class_stream": first,
                "kernels": kernels,
                "pace": paces,
                "row": places,
                "ends": ends + meeting,
                "begun": begun + meeting,
                "meetings": meetings,
            }
            for name, column in columns.items():
                streams[name][own] = column
            every.append(kinds)
        return GroupRows(first, paces, every, rows, recorded)

    def _first_entry(self, part: LinkedPart, recorded: Ints) -> int:
        """Adds the entries of a part, if they are not there yet; the row of the first."""
        if id(part) not in self.known:
            stream = part.stream_of[part.awaited]
            position = part.awaited - part.begins[stream] + 1
            first = self.waits.add(records("waits", len(stream), stream=stream, position=position))
            entries = records(
                "entries", part.num_entries, first_wait=first + part.first_wait[:-1], what=part.kind_of
            )
            entries["recorded"] = recorded[:-1]
            self.known[id(part)] = self.entries.add(entries)
        return self.known[id(part)]

    def _add_segments(self, group: PricedGroup, *, slowed: bool) -> Ints:
        """Adds the segments of the classes of a group, with their parts if these are ``slowed``; by class the
        row of the first.
        """
        segments, (different, which) = group.part.segments, group.kernels()
        times, rows = segments.durations(different), np.arange(len(different))
        first = self.work.add(different.ravel() if slowed else zeros(0)) + segments.first[:-1] * PARTS
        first_part = (first + rows[:, np.newaxis] * (segments.first[-1] * PARTS * slowed)).ravel()
        added = records("segments", times.size, first_part=first_part, time=times.ravel())
        return (self.segments.add(added) + rows * len(segments))[which]

    def _add_kinds(self, classes: PricedClasses, number: int, which: int) -> Records:
        """Adds what the classes of a group do on one of their communication streams: [classes, kinds]."""
        done = classes.communications(number, which)
        workload, width = len(self.workloads) - 1, len(classes.groups[number].indices)
        kinds = records("kinds", width * len(done), time=NONE, transfer=NONE, units=NONE, gated=NONE)
        by_class = kinds.reshape(width, len(done))
        known: dict[int, tuple[Ints, Ints]] = {}
        for place, kind in enumerate(done):
            if id(kind.met) not in known:
                known[id(kind.met)] = self._slots(workload, number, which, kind.met)
            own = by_class[:, place]
            own["slot"], own["size"] = known[id(kind.met)]
            numbers = [
                NONE if transfer is None else self.transfers.setdefault(transfer, len(self.transfers))
                for transfer in kind.transfers
            ]
            own["transfer"] = np.array(numbers)[kind.which]
            own["time"] = np.where(own["transfer"] == NONE, kind.times, NONE)
            if kind.units is not None:
                own["units"], own["memory"] = kind.units, kind.memory
            if kind.gates is not None:
                own["gated"] = [self._gated(gates) for gates in kind.gates]
        return by_class

    def _slots(
        self, workload: int, number: int, which: int, met: Sequence[tuple[Who, int]]
    ) -> tuple[Ints, Ints]:
        """By class the slot of those who meet, and how many they are."""
        slots = [
            self.slots.setdefault(
                (workload, *(who if size > 1 else (number, which, column))), len(self.slots)
            )
            for column, (who, size) in enumerate(met)
        ]
        return np.array(slots, dtype=np.int64), np.array([size for _, size in met], dtype=np.int64)

    def _gated(self, gates: ClassGates | None) -> int:
        """The number of what a kind has to do with gates."""
        if gates is None:
            return NONE

        def row(gate: StepGate) -> int:
            return self.gates.setdefault(gate, len(self.gates) * self.steps)

        first = self.opens.add(table("opens", [(row(gate), amount) for gate, amount in gates.opens]))
        waits = NONE if gates.waits is None else row(gates.waits)
        return self.gated.add(table("gated", [(waits, gates.count, gates.steps_ago, 0, first)]))

    def _slot_records(self, kinds: Records) -> Records:
        """A slot for all who meet in these kinds, and one for each background flow, with as many nodes as its
        flows may load links.
        """
        sizes = np.diff(self.links.vectors.offsets)
        # The last number is that of no transfer at all.
        phases = [*(transfer.phases for transfer in self.transfers), ()]
        most = [max((sizes[phase.vector] for phase in of_transfer), default=0) for of_transfer in phases]
        nodes = zeros(len(self.slots))
        np.maximum.at(nodes, kinds["slot"], np.array(most, dtype=np.int64)[kinds["transfer"]])
        nodes = np.append(nodes, sizes[[flow.vector for flow in self.links.background]])
        none = dict.fromkeys(("first_member", "last_member", "ends", "stream"), NONE)
        return records("slots", len(nodes) + 1, first_node=offsets(nodes), **none)

    def arrays(self) -> Arrays:
        """A run of everything added, in which nothing has happened."""
        links, vectors, background = self.links, self.links.vectors, self.links.background
        phases = [phase for transfer in self.transfers for phase in transfer.phases]
        kinds = self.kinds.joined()
        slots = self._slot_records(kinds)
        of_nodes = np.repeat(np.arange(len(slots) - 1), np.diff(slots["first_node"]))
        most = [kernels for _, kernels in self.paces]
        paces = records(
            "paces",
            len(most),
            stream=[stream for stream, _ in self.paces],
            first_part=offsets(most)[:-1] * PARTS,
            rate_units=SCALE,
            rate_memory=SCALE,
            segment=NONE,
            order=NONE,
        )
        # As many events can be under way; others in the heap are stale.
        events = self.streams.count + 2 * len(slots) + len(paces) + len(links.changes) + len(self.workloads)
        parts = sum(most) * PARTS
        self.gated.add(table("gated", [(NONE, 0, 0, 0, self.opens.count)]))
        self.segments.add(records("segments", 1, first_part=self.work.count))
        self.entries.add(records("entries", 1, first_wait=self.waits.count))
        return Arrays(
            totals=records("totals", 1, most_kernels=max(most, default=0)),
            streams=self.streams.joined(),
            entries=self.entries.joined(),
            waits=self.waits.joined(),
            kinds=kinds,
            transfers=records(
                "transfers",
                len(self.transfers) + 1,
                latency=[*(transfer.latency_ns for transfer in self.transfers), 0],
                late=[*(bool(transfer.late) for transfer in self.transfers), 0],
                first_phase=offsets([len(transfer.phases) for transfer in self.transfers]),
            ),
            phases=table("phases", phases),
            vectors=records("vectors", len(vectors) + 1, first_load=vectors.offsets),
            loads=records("loads", len(vectors.links), link=vectors.links, load=vectors.loads),
            slots=slots,
            links=records(
                "links", len(links.capacity), first_node=NONE, last_node=NONE, capacity=links.capacity
            ),
            nodes=records("nodes", len(of_nodes), slot=of_nodes, next=NONE, previous=NONE),
            segments=self.segments.joined(),
            work=self.work.joined(),
            paces=paces,
            part_end=zeros(parts),
            workloads=records("workloads", len(self.workloads), first_stream=self.workloads),
            changes=table("changes", sorted(links.changes)),
            traffic=table(
                "traffic",
                [
                    (flow.vector, flow.begin, NEVER if flow.end is None else flow.end, flow.rate)
                    for flow in background
                ],
            ),
            heap=records("heap", 2 * events + 1024, time=NEVER, order=NEVER),
            stack=zeros(self.streams.count + 1),
            touched=zeros(len(links.capacity)),
            marked=zeros(len(links.capacity)),
            found=records("found", len(slots)),
            # NumPy asks for huge pages for what it need not set to zero.
            begun=zeros(self.begun),
            ends=np.empty(self.ends, dtype=np.int64),
            stretched=records("stretched", MANY_KERNELS if self.paces else 1),
            kernel_end=zeros(MANY_KERNELS * bool(self.paces) + parts),
            gated=self.gated.joined(),
            opens=self.opens.joined(),
            gates=records("gates", len(self.gates) * self.steps, last_waiter=NONE),
        )


def _who_always_meet(kinds: Records) -> Ints:
    """By class [classes, kinds] which of those who meet in all kinds it is among."""
    meeting = np.zeros(len(kinds), dtype=np.int64)
    for slots in {slots.tobytes(): slots for slots in kinds["slot"].T}.values():
        _, meeting = np.unique(meeting * (slots.max() + 1) + slots, return_inverse=True)
    return meeting


def records(name: str, count: int, **columns: Any) -> Records:
    """So many records of an array, zero but for some columns."""
    records = np.zeros(count, dtype=KINDS[name])
    for field_name, column in columns.items():
        records[field_name] = column
    return records


def table(name: str, rows: Sequence[tuple[float, ...]]) -> Records:
    """Records of an array with these values."""
    return np.array(rows, dtype=KINDS[name]).reshape(len(rows))


def zeros(count: int) -> Ints:
    """So many zeros."""
    return np.zeros(count, dtype=np.int64)
