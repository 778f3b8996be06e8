"""Trace events as JSON text, built by columns: a list of events per block, nothing per event but its text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from simcluster.report.arrows import arrows
from simcluster.report.slices import COMPUTE, Slices, actions, instances, kernels, owners
from simcluster.trace import Run, Table

Ints = NDArray[np.int64]

BLOCK = 16384
"""Events that are text at a time."""

WAITS = "waits of compute"
"""The thread that says what the compute stream stood still for."""

_THREADS = 100
"""Threads of process n are numbered from n * 100, so that no two have the same number."""


def blocks(run: Run) -> Iterator[list[str]]:
    """Events as JSON, a list at a time; outer slices before inner ones, arrows after all slices."""
    names, owner = owners(run)
    processes = [_Process(run, each, names, owner) for each in run.documents["classes"]]
    for process in processes:
        yield from process.blocks()
    yield list(_arrow_events(run, processes))


def microseconds(nanoseconds: NDArray[Any]) -> list[str]:
    """Times as JSON numbers in microseconds, exact to the nanosecond.

    Readers multiply by 1000 and cut off, which would make 1.001 one nanosecond too little; such numbers are
    written one ulp higher (1.0010000000000001), so that no slice ends after the one it lies in.
    """
    whole = nanoseconds.astype(np.int64)
    found = whole / 1000.0
    short = (found * 1000.0).astype(np.int64) < whole
    found[short] = np.nextafter(found[short], np.inf)
    return _texts(found)


def _texts(numbers: NDArray[Any]) -> list[str]:
    """Every number as JSON."""
    if not numbers.size:
        return []
    found = orjson.dumps(np.ascontiguousarray(numbers), option=orjson.OPT_SERIALIZE_NUMPY)
    return found[1:-1].decode().split(",")


def _json(value: object) -> str:
    return orjson.dumps(value).decode()


@dataclass(frozen=True)
class _Process:
    """One class as a process. Numbers start at 1: process 0 is the idle process to readers."""

    run: Run
    each: Mapping[str, Any]
    names: Sequence[str]
    owner: Ints

    @cached_property
    def index(self) -> int:
        return int(self.each["class"])

    @cached_property
    def pid(self) -> int:
        return self.index + 1

    @cached_property
    def spans(self) -> Table:
        return self.mine(self.run.spans)

    @cached_property
    def threads(self) -> dict[str, int]:
        """Thread name -> number: compute, what it waits for, the communication streams by first use."""
        streams = self.run.spans.names["stream"]
        present = np.unique(self.spans["stream"]).tolist()
        others = [streams[number] for number in present if streams[number] != COMPUTE]
        return {name: self.pid * _THREADS + at for at, name in enumerate([COMPUTE, WAITS, *others], 1)}

    def mine(self, table: Table) -> Table:
        """The rows of this class."""
        return table.where(table["class"] == self.index)

    def blocks(self) -> Iterator[list[str]]:
        """All events but arrows."""
        yield list(self._metadata())
        compute = kernels(self.spans, self.index)
        found = actions(compute)
        labels = [compute.names["action"][number] for number in compute["action"][found.rows]]
        yield self._enclosing("action", labels, found, compute)
        found = instances(compute, self.owner)
        layers = [self.names[number] for number in self.owner[compute["operator"][found.rows]]]
        yield self._enclosing("instance", layers, found, compute)
        yield from self._spans()
        yield from self._waits()
        yield from self._counters()

    def _metadata(self) -> Iterator[str]:
        each = self.each
        name = f"stage {each['stage']} - ranks {each['members']} ({each['ranks']})"
        yield self._named("process_name", 0, {"name": name})
        yield self._named("process_sort_index", 0, {"sort_index": self.index})
        yield self._named("process_labels", 0, {"labels": each["device"]})
        for order, (thread, tid) in enumerate(self.threads.items()):
            yield self._named("thread_name", tid, {"name": thread})
            yield self._named("thread_sort_index", tid, {"sort_index": order})

    def _named(self, name: str, tid: int, args: Mapping[str, object]) -> str:
        return _json({"ph": "M", "pid": self.pid, "tid": tid, "ts": 0, "name": name, "args": args})

    def _head(self, thread: str) -> str:
        return f'{{"ph":"X","pid":{self.pid},"tid":{self.threads[thread]},"ts":'

    def _enclosing(self, kind: str, labels: Sequence[str], slices: Slices, compute: Table) -> list[str]:
        """Slices around kernels."""
        head, cat = self._head(COMPUTE), _json(kind)
        columns = (
            microseconds(slices.starts),
            microseconds(slices.ends - slices.starts),
            map(_json, labels),
            _contexts(compute.where(slices.rows)),
        )
        return [
            f'{head}{start},"dur":{length},"name":{label},"cat":{cat},"args":{{{context}}}}}'
            for start, length, label, context in zip(*columns, strict=True)
        ]

    def _spans(self) -> Iterator[list[str]]:
        """One slice per span."""
        spans = self.spans
        heads = [self._head(name) if name in self.threads else "" for name in spans.names["stream"]]
        bodies, body = self._bodies(spans)
        contexts = _contexts(spans)
        for start in range(0, len(spans), BLOCK):
            part = slice(start, start + BLOCK)
            columns = (
                spans["stream"][part].tolist(),
                microseconds(spans["start"][part]),
                microseconds(spans["end"][part] - spans["start"][part]),
                body[part].tolist(),
                contexts[part],
            )
            yield [
                f'{heads[stream]}{begin},"dur":{length}{bodies[number]}{context}}}}}'
                for stream, begin, length, number, context in zip(*columns, strict=True)
            ]

    def _bodies(self, spans: Table) -> tuple[list[str], Ints]:
        """What spans of one instruction of one instance share, as text, and for each span which it is."""
        operators, kinds = spans.names["operator"], spans.names["kind"]
        key = spans["code"].astype(np.int64) * (int(spans["instruction"].max(initial=0)) + 1)
        key = (key + spans["instruction"]) * len(operators) + spans["operator"]
        _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
        found = []
        for row in first.tolist():
            operator, kind = operators[spans["operator"][row]], kinds[spans["kind"][row]]
            args: dict[str, object] = {"operator": operator, "bytes": int(spans["bytes"][row])}
            if spans["flops"][row]:
                args["flops"] = int(spans["flops"][row])
            name = self._short(operator, int(self.owner[spans["operator"][row]]))
            found.append(f',"name":{_json(name)},"cat":{_json(kind)},"args":{_json(args)[:-1]},')
        return found, inverse.reshape(-1)

    def _short(self, operator: str, owner: int) -> str:
        """An operator's name within its instance: equal work has equal names. Transfers: what they do."""
        return operator[len(self.names[owner]) + 1 :] if owner >= 0 else operator.rpartition(".")[2]

    def _waits(self) -> Iterator[list[str]]:
        """One slice per wait of the compute stream, named by its cause."""
        waits = self.mine(self.run.waits)
        head = self._head(WAITS)
        tails = [f',"name":{_json(cause)},"cat":"wait"}}' for cause in waits.names["cause"]]
        for start in range(0, len(waits), BLOCK):
            part = waits.where(np.arange(start, min(start + BLOCK, len(waits))))
            columns = (
                microseconds(part["start"]),
                microseconds(part["end"] - part["start"]),
                part["cause"].tolist(),
            )
            yield [
                f'{head}{begin},"dur":{length}{tails[cause]}'
                for begin, length, cause in zip(*columns, strict=True)
            ]

    def _counters(self) -> Iterator[list[str]]:
        """The bytes held under each category, and of all together, whenever they change."""
        memory = self.mine(self.run.memory)
        yield self._counter("memory", memory["time"], memory["bytes"])
        for number, category in enumerate(memory.names["category"]):
            rows = memory["category"] == number
            yield self._counter(f"memory {category}", memory["time"][rows], memory["bytes"][rows])

    def _counter(self, name: str, times: Ints, changes: Ints) -> list[str]:
        when, level = levels(times, changes)
        middle = f',"name":{_json(name)},"args":{{"bytes":'
        head = f'{{"ph":"C","pid":{self.pid},"ts":'
        return [
            f"{head}{time}{middle}{value}}}}}"
            for time, value in zip(microseconds(when), level.tolist(), strict=True)
        ]


def levels(times: Ints, changes: Ints) -> tuple[Ints, Ints]:
    """When a sum of changes has a new value, and which: one moment per time, none where nothing changed."""
    level = np.cumsum(changes)
    last = np.flatnonzero(np.append(times[1:] != times[:-1], True)) if len(times) else np.zeros(0, np.int64)
    when, level = times[last], level[last]
    new = np.append(True, level[1:] != level[:-1]) if len(level) else np.zeros(0, np.bool_)
    return when[new], level[new]


def _contexts(table: Table) -> list[str]:
    """For each span the arguments that say where in the schedule it belongs."""
    batches = table["micro_batch"].astype(np.int64)
    key = (table["step"].astype(np.int64) * len(table.names["action"]) + table["action"]) * (
        int(batches.max(initial=0)) + 2
    ) + (batches + 1)
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    steps = int(table["step"].max(initial=0)) + 1
    found = []
    for row in first.tolist():
        args: dict[str, object] = {"action": table.names["action"][table["action"][row]]}
        if batches[row] >= 0:
            args["micro_batch"] = int(batches[row])
        if steps > 1:
            args["step"] = int(table["step"][row])
        found.append(_json(args)[1:-1])
    return [found[number] for number in inverse.reshape(-1).tolist()]


def _arrow_events(run: Run, processes: Sequence[_Process]) -> Iterator[str]:
    """An arrow per transfer, from the start of the send to the last nanosecond of the receive.

    ``bp: e`` binds the end to the slice around it; without it readers take the next slice.
    """
    spans, streams = run.spans, run.spans.names["stream"]
    for number, (send, receive) in enumerate(arrows(run), 1):
        for row, phase, when in (
            (send, "s", int(spans["start"][send])),
            (receive, "f", int(spans["end"][receive]) - 1),
        ):
            process = processes[int(spans["class"][row])]
            tid = process.threads[streams[spans["stream"][row]]]
            (time,) = microseconds(np.array([when]))
            ends = ',"bp":"e"' if phase == "f" else ""
            yield (
                f'{{"ph":"{phase}"{ends},"id":{number},"pid":{process.pid},"tid":{tid},"ts":{time},'
                f'"name":"transfer","cat":"transfer"}}'
            )
