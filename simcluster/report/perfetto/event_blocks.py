"""Trace events as JSON text, built by columns, a block at a time, class after class.

Ranks of one class do the same at the same times, and so may the next class, which loads other links. The text
of all of them is made once, with a mark where the number of the process stands, and written for each track.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.number_arrays import Ints
from simcluster.report.content import (
    Slices,
    action_slices,
    distinct_rows,
    instance_owners,
    instance_slices,
    kernel_slices,
)
from simcluster.report.perfetto.flow_arrows import BACKWARD, FORWARD, ends, match_transfers
from simcluster.report.perfetto.json_columns import (
    join_columns,
    json_microseconds,
    json_numbers,
    json_spans,
    json_text,
    texts_at,
)
from simcluster.report.perfetto.track_selection import TraceTrack, TraceTracks, select_tracks
from simcluster.trace import COMPUTE, Run, Table

BLOCK = 8192
"""Events that are text at a time."""

WAITS = "waits of compute"
"""The thread that says what the compute stream stood still for."""

MOST_KEPT = 100_000
"""Spans of a class up to which its text is kept for the next class: some 40 MB."""

_PID = b"\x01"
"""Stands for the number of a process where several have the same text; JSON holds no such character."""


def event_blocks_of(run: Run, ranks: Iterable[int] | None = None) -> Iterator[bytes]:
    """Events as JSON, each after a comma and a line's end; outer slices before inner ones, arrows last.

    One track per class, or one per rank that is named. Raises TraceError if there is no such rank.
    """
    chosen = select_tracks(run, ranks)
    names, owner = instance_owners(run)
    order = {
        pid: at for at, pid in enumerate(sorted(t.pid for tracks in chosen.by_class.values() for t in tracks))
    }
    paired = {index for a, _, b, _ in chosen.neighbours for index in (a, b)}
    transfers: dict[int, _Ends] = {}
    for alike, events in _grouped(run, chosen.by_class):
        pids = {index: [b"%d" % track.pid for track in chosen.by_class[index]] for index in alike}
        pid = pids[alike[0]][0] if sum(map(len, pids.values())) == 1 else _PID
        writer = _Class(alike[0], pid, events, names, owner)
        blocks: Iterable[bytes] = writer.blocks() if len(alike) == 1 else list(writer.blocks())
        for index in alike:
            for track in chosen.by_class[index]:
                yield writer.metadata(track, order[track.pid])
            for block in blocks:
                if pid != _PID:
                    yield block
                else:
                    yield from (block.replace(_PID, own_pid) for own_pid in pids[index])
        if not paired.isdisjoint(alike):
            transfers |= dict.fromkeys(alike, _Ends(ends(events.spans), writer.threads))
    yield from _arrows(chosen, transfers)


@dataclass(frozen=True, slots=True)
class _Events:
    """What a class did: its spans, what its compute stream waited for, its memory."""

    spans: Table
    waits: Table
    memory: Table

    @classmethod
    def of(cls, run: Run, index: int) -> _Events:
        """Those of a class of a run."""
        return cls(
            run.recording.spans(index), run.waits.among("class", index), run.memory.among("class", index)
        )

    def equal(self, other: _Events) -> bool:
        """Whether another class did the same at the same times."""
        return all(
            len(ours) == len(theirs)
            and ours.names == theirs.names
            and all(np.array_equal(ours[name], theirs[name]) for name in ours.columns if name != "class")
            for ours, theirs in (
                (self.spans, other.spans),
                (self.waits, other.waits),
                (self.memory, other.memory),
            )
        )


def _grouped(run: Run, classes: Iterable[int]) -> Iterator[tuple[list[int], _Events]]:
    """Classes that follow one another and did the same at the same times, and what they did."""
    alike: list[int] = []
    known: _Events | None = None
    for index in classes:
        if known is not None and len(known.spans) > MOST_KEPT:
            yield alike, known
            known = None  # before the next ones are made: they are large
        events = _Events.of(run, index)
        if known is not None and known.equal(events):
            alike.append(index)
            continue
        if known is not None:
            yield alike, known
        alike, known = [index], events
    if known is not None:
        yield alike, known


@dataclass(frozen=True, slots=True)
class _Ends:
    """The sends and receives of a class, and the numbers of its threads."""

    spans: Table
    threads: Mapping[str, int]


def _arrows(chosen: TraceTracks, transfers: Mapping[int, _Ends]) -> Iterator[bytes]:
    """An arrow per transfer, from the start of the send to the last nanosecond of the receive.

    ``bp: e`` binds the end to the slice around it; without it readers take the next slice.
    """
    known: dict[tuple[int, int], tuple[list[_Arrows], list[_Arrows]]] = {}
    count = 0
    for index, pid, other, other_pid in chosen.neighbours:
        if (index, other) not in known:
            near, far = transfers[index], transfers[other]
            known[index, other] = (
                [_Arrows.of(near, far, streams) for streams in FORWARD],
                [_Arrows.of(far, near, streams) for streams in BACKWARD],
            )
        forward, backward = known[index, other]
        for ways, sender, receiver in ((forward, pid, other_pid), (backward, other_pid, pid)):
            for arrows in ways:
                if arrows.starts:
                    yield arrows.text(sender, receiver, count + 1)
                    count += len(arrows.starts)


@dataclass(frozen=True, slots=True)
class _Arrows:
    """The arrows from one class to another: when they start and end, and on which threads."""

    starts: list[bytes]
    ends: list[bytes]
    threads: tuple[int, int]

    @classmethod
    def of(cls, senders: _Ends, receivers: _Ends, streams: tuple[str, str]) -> _Arrows:
        """All transfers over a pair of streams."""
        sends, receives = match_transfers(senders.spans, receivers.spans, streams)
        return cls(
            json_microseconds(senders.spans["start"][sends]),
            json_microseconds(receivers.spans["end"][receives] - 1),
            (senders.threads.get(streams[0], 0), receivers.threads.get(streams[1], 0)),
        )

    def text(self, sender: int, receiver: int, first: int) -> bytes:
        """The events between two processes, numbered from ``first``."""
        heads = [
            b',"pid":%d,"tid":%d%02d,"ts":' % (pid, pid, thread)
            for pid, thread in zip((sender, receiver), self.threads, strict=True)
        ]
        numbers = json_numbers(np.arange(first, first + len(self.starts)))
        tail = b',"name":"transfer","cat":"transfer"}'
        return join_columns(
            b',\n{"ph":"s","id":',
            numbers,
            heads[0],
            self.starts,
            tail,
            b',\n{"ph":"f","bp":"e","id":',
            numbers,
            heads[1],
            self.ends,
            tail,
        )


@dataclass(frozen=True)
class _Class:
    """The events of one class; ``pid`` is the number of its process, or what stands for it."""

    index: int
    pid: bytes
    events: _Events
    names: Sequence[str]
    owner: Ints

    @property
    def spans(self) -> Table:
        """When everything ran."""
        return self.events.spans

    @cached_property
    def threads(self) -> dict[str, int]:
        """Thread name -> number: compute, what it waits for, the communication streams by first use.

        In the trace those of process n are numbered from n * 100, so that no two have the same number.
        """
        streams = self.spans.names["stream"]
        present = np.unique(self.spans["stream"]).tolist()
        others = [streams[number] for number in present if streams[number] != COMPUTE]
        return {name: at for at, name in enumerate([COMPUTE, WAITS, *others], 1)}

    def metadata(self, track: TraceTrack, order: int) -> bytes:
        """What a process and its threads are called, and in which order they stand."""
        metadata: list[tuple[str, int, Mapping[str, object]]] = [
            ("process_name", 0, {"name": track.name}),
            ("process_sort_index", 0, {"sort_index": order}),
            ("process_labels", 0, {"labels": track.device}),
        ]
        for at, (thread, number) in enumerate(self.threads.items()):
            tid = int(f"{track.pid}{number:02}")
            metadata.append(("thread_name", tid, {"name": thread}))
            metadata.append(("thread_sort_index", tid, {"sort_index": at}))
        events = (
            {"ph": "M", "pid": track.pid, "tid": tid, "ts": 0, "name": name, "args": args}
            for name, tid, args in metadata
        )
        return b"".join(b",\n" + json_text(event) for event in events)

    def blocks(self) -> Iterator[bytes]:
        """All slices and counters."""
        compute = kernel_slices(self.spans, self.index)
        actions = action_slices(compute)
        chosen = compute["action"][actions.rows]
        yield from self._enclosing("action", compute.names["action"], chosen, actions, compute)
        layers = instance_slices(compute, self.owner)
        chosen = self.owner[compute["operator"][layers.rows]]
        yield from self._enclosing("instance", self.names, chosen, layers, compute)
        yield from self._spans()
        yield from self._waits()
        yield from self._counters()

    def _head(self, thread: str) -> bytes:
        return b',\n{"ph":"X","pid":%b,"tid":%b%02d,"ts":' % (self.pid, self.pid, self.threads[thread])

    def _enclosing(
        self, kind: str, names: Sequence[str], chosen: Ints, slices: Slices, compute: Table
    ) -> Iterator[bytes]:
        """Slices around kernels, each with one of the names."""
        if not len(slices):
            return
        rows, which = distinct_rows(chosen)
        yield join_columns(
            self._head(COMPUTE),
            *json_spans(slices.starts, slices.ends),
            b',"name":',
            texts_at([json_text(names[number]) for number in chosen[rows].tolist()], which),
            b',"cat":%b,"args":{' % json_text(kind),
            _contexts(compute.where(slices.rows)),
        )

    def _spans(self) -> Iterator[bytes]:
        """One slice per span."""
        spans = self.spans
        heads = [self._head(name) if name in self.threads else b"" for name in spans.names["stream"]]
        bodies, contexts = self._bodies(spans), _contexts(spans)
        for start in range(0, len(spans), BLOCK):
            part = slice(start, start + BLOCK)
            yield join_columns(
                texts_at(heads, spans["stream"][part]),
                *json_spans(spans["start"][part], spans["end"][part]),
                bodies[part],
                contexts[part],
            )

    def _bodies(self, spans: Table) -> list[bytes]:
        """What spans of one instruction of one instance share, as text, for each span."""
        operators, kinds, graphs = (spans.names[name] for name in ("operator", "kind", "graph"))
        rows, numbers = distinct_rows(spans["operator"], spans["instruction"], spans["code"])
        texts = []
        names = ("operator", "kind", "graph", "bytes", "flops")
        columns = (spans[name][rows].tolist() for name in names)
        for operator, kind, graph, size, flops in zip(*columns, strict=True):
            args: dict[str, object] = {"operator": operators[operator], "bytes": size}
            if flops:
                args["flops"] = int(flops)
            if graphs[graph]:
                args["graph"] = f"{self.names[self.owner[operator]]}.{graphs[graph]}"
            name = self._short(operators[operator], int(self.owner[operator]))
            body = json_text({"name": name, "cat": kinds[kind], "args": args})
            texts.append(b",%b," % body[1:-2])
        return texts_at(texts, numbers)

    def _short(self, operator: str, owner: int) -> str:
        """An operator's name within its instance: equal work has equal names. Transfers: what they do."""
        return operator[len(self.names[owner]) + 1 :] if owner >= 0 else operator.rpartition(".")[2]

    def _waits(self) -> Iterator[bytes]:
        """One slice per wait of the compute stream, named by its cause."""
        waits = self.events.waits
        tails = [b',"name":%b,"cat":"wait"}' % json_text(cause) for cause in waits.names["cause"]]
        for start in range(0, len(waits), BLOCK):
            part = slice(start, start + BLOCK)
            yield join_columns(
                self._head(WAITS),
                *json_spans(waits["start"][part], waits["end"][part]),
                texts_at(tails, waits["cause"][part]),
            )

    def _counters(self) -> Iterator[bytes]:
        """The bytes held under each category, and of all together, whenever they change.

        Readers name a counter by its event and argument, ``memory`` and ``weights bytes``, so that what
        changes at one moment is one event. Moments at which the same counters change are text together.
        """
        memory = self.events.memory
        categories = memory.names["category"]
        moments, levels = level_changes(memory["time"], memory["category"], memory["bytes"], len(categories))
        keys = [b"%b:" % json_text(f"{name} bytes") for name in categories] + [b'"bytes":']
        sets, which = distinct_rows(*(level >= 0 for level in levels))
        for number, example in enumerate(sets.tolist()):
            chosen = np.flatnonzero(which == number)
            changed = np.flatnonzero(levels[:, example] >= 0).tolist()
            for start in range(0, len(chosen), BLOCK):
                rows = chosen[start : start + BLOCK]
                values = {keys[counter]: json_numbers(levels[counter, rows]) for counter in changed}
                yield self._counter(json_microseconds(moments[rows]), values)

    def _counter(self, times: list[bytes], values: Mapping[bytes, list[bytes]]) -> bytes:
        head, before = b',\n{"ph":"C","pid":%b,"ts":' % self.pid, b',"name":"memory","args":{'
        columns: list[bytes | list[bytes]] = [head, times]
        for key, numbers in values.items():
            columns += [before + key, numbers]
            before = b","
        return join_columns(*columns, b"}}")


def level_changes(times: Ints, counters: Ints, changes: Ints, count: int) -> tuple[Ints, Ints]:
    """The moments at which sums of changes have new values, and these values [counters + 1, moments].

    ``times`` rise; there are ``count`` counters. The last row is all together; -1 is what has no new value.
    """
    new = np.append(True, times[1:] != times[:-1])[: len(times)]
    moments, number = times[new], np.cumsum(new) - 1
    levels = np.zeros((count + 1, len(moments)), dtype=np.int64)
    np.add.at(levels, (counters, number), changes)
    levels[-1] = levels[:-1].sum(axis=0)
    same = levels == 0
    np.cumsum(levels, axis=1, out=levels)
    levels[same] = -1
    some = ~same.all(axis=0)
    return moments[some], levels[:, some]


def _contexts(table: Table) -> list[bytes]:
    """For each span the arguments that say where in the schedule it belongs, and the end of its event."""
    batches = table["micro_batch"]
    executions, numbers = distinct_rows(table["execution"])
    rows, places = distinct_rows(
        *(column[executions] for column in (table["action"], batches + 1, table["step"]))
    )
    steps = int(table["step"].max(initial=0)) + 1
    texts = []
    for row in executions[rows].tolist():
        step = int(table["step"][row]) if steps > 1 else -1
        texts.append(_context(table.names["action"][table["action"][row]], int(batches[row]), step))
    return texts_at(texts, places[numbers])


@lru_cache(maxsize=2**16)
def _context(action: str, batch: int, step: int) -> bytes:
    """The arguments of one; -1 if there is no micro-batch, or one step only."""
    args: dict[str, object] = {"action": action}
    if batch >= 0:
        args["micro_batch"] = batch
    if step >= 0:
        args["step"] = step
    return json_text(args)[1:] + b"}"
