"""From what the engine did to the recording that spans are expanded from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simcluster.deferred_dataclass import dataclass
from simcluster.engine import NOTHING, ClassTiming, CodeEntries, LinkedPart
from simcluster.number_arrays import Ints
from simcluster.program import COMPUTE, InstructionKind, Program
from simcluster.trace import NameIndex, Recording, Table

KINDS = tuple(str(action) for action in InstructionKind)


def record_run(program: Program, parts: Sequence[int], timings: Sequence[ClassTiming]) -> Recording:
    """The recording of a run; ``parts`` are those of each class."""
    recorder = _Recorder(program)
    for part, timing in zip(parts, timings, strict=True):
        recorder.add(part, timing)
    return recorder.recording()


@dataclass
class _Entries:
    """The entries of one kind of stream, of all classes one after the other."""

    parts: list[tuple[Ints, Ints, Ints]] = field(default_factory=list)
    count: int = 0

    def add(self, starts: Ints, ends: Ints, arrivals: Ints) -> int:
        """Where the new ones begin."""
        first, self.count = self.count, self.count + len(starts)
        self.parts.append((starts, ends, arrivals))
        return first

    def table(self, *names: str) -> Table:
        """The first columns, under these names."""
        nothing = np.zeros(0, dtype=np.int64)
        return Table(
            {
                name: np.concatenate([nothing, *(part[number] for part in self.parts)])
                for number, name in enumerate(names)
            }
        )


@dataclass
class _Recorder:
    """What was seen so far: codes, prices and scripts once, of every class its numbers in them."""

    program: Program
    codes: dict[int, CodeEntries] = field(default_factory=dict)
    prices: dict[tuple[int, bytes], tuple[int, Ints, Ints]] = field(default_factory=dict)
    scripts: dict[tuple[int, bytes], tuple[int, LinkedPart]] = field(default_factory=dict)
    classes: list[tuple[int, dict[int, int], dict[str, int]]] = field(default_factory=list)
    segments: _Entries = field(default_factory=_Entries)
    transfers: _Entries = field(default_factory=_Entries)
    stretched: _Entries = field(default_factory=_Entries)
    streams: NameIndex = field(default_factory=NameIndex)

    def add(self, part: int, timing: ClassTiming) -> None:
        """Records a class."""
        linked = timing.part
        script, _ = self.scripts.setdefault((part, linked.bases.tobytes()), (len(self.scripts), linked))
        prices = {
            code: self._price(code, linked.codes[code], timing.durations(code)) for code in linked.codes
        }
        first = {}
        for number, stream in enumerate(linked.streams):
            starts, ends, arrivals = timing.starts[number], timing.ends[number], timing.arrivals[number]
            if stream.name == COMPUTE:
                first[stream.name] = self.segments.add(starts, ends, starts)
                slowed = timing.stretched
                self.stretched.add(slowed["entry"] + first[stream.name], slowed["start"], slowed["end"])
            else:
                first[stream.name] = self.transfers.add(starts, ends, arrivals)
        self.classes.append((script, prices, first))

    def _price(self, code: int, entries: CodeEntries, durations: Ints) -> int:
        """The number of what a code costs, new or known."""
        if code not in self.codes:
            self.codes[code] = entries
            for instruction in self.program.codes[code].instructions:
                self.streams.number(instruction.stream)
        key = code, durations.tobytes()
        if key not in self.prices:
            self.prices[key] = len(self.prices), durations, entries.offsets(durations)
        return self.prices[key][0]

    def recording(self) -> Recording:
        """Everything recorded."""
        return Recording(
            self._codes(),
            self._prices(),
            self._executions(),
            self._classes(),
            self.segments.table("start", "end"),
            self.transfers.table("start", "end", "arrival"),
            self.stretched.table("entry", "start", "end"),
        )

    def _codes(self) -> Table:
        names, graphs = NameIndex(), NameIndex({"": 0})
        rows = [
            (code, at, instruction, int(entries.entry[at]))
            for code, entries in self.codes.items()
            for at, instruction in enumerate(self.program.codes[code].instructions)
        ]
        columns: dict[str, NDArray[Any]] = {
            "code": np.array([code for code, _, _, _ in rows], dtype=np.int32),
            "instruction": np.array([at for _, at, _, _ in rows], dtype=np.int32),
            "stream": self.streams.numbers(what.stream for _, _, what, _ in rows).astype(np.int16),
            "kind": np.array([KINDS.index(what.action) for _, _, what, _ in rows], dtype=np.int8),
            "name": names.numbers(what.name for _, _, what, _ in rows).astype(np.int32),
            "graph": graphs.numbers(what.piece for _, _, what, _ in rows).astype(np.int16),
            "bytes": np.array([what.bytes_moved for _, _, what, _ in rows], dtype=np.int64),
            "flops": np.array([what.flops for _, _, what, _ in rows], dtype=np.float64),
            "entry": np.array([entry for _, _, _, entry in rows], dtype=np.int64),
        }
        told = {"stream": self.streams.listed, "kind": KINDS, "name": names.listed, "graph": graphs.listed}
        return Table(columns, told)

    def _prices(self) -> Table:
        durations = [durations for _, durations, _ in self.prices.values()]
        nothing = np.zeros(0, dtype=np.int64)
        lengths = list(map(len, durations))
        return Table(
            {
                "price": np.repeat(np.arange(len(lengths), dtype=np.int32), lengths),
                "duration": np.concatenate([nothing, *durations]),
                "offset": np.concatenate([nothing, *(offsets for _, _, offsets in self.prices.values())]),
            }
        )

    def _executions(self) -> Table:
        instances, actions = NameIndex(), NameIndex()
        columns: dict[str, list[NDArray[np.integer]]] = {}
        for script, linked in self.scripts.values():
            count = len(linked.code_of)
            base = np.full((count, len(self.streams.names)), NOTHING, dtype=np.int64)
            for number, stream in enumerate(linked.streams):
                if stream.name in self.streams.names:
                    base[:, self.streams.number(stream.name)] = linked.bases[:, number]
            runs, (names, instance) = linked.one_step, linked.instances
            of_instances, of_actions = instances.numbers(names), actions.numbers(runs.actions)
            own_columns: dict[str, NDArray[np.integer]] = {
                "script": np.full(count, script, dtype=np.int32),
                "code": linked.code_of.astype(np.int32),
                "instance": of_instances[instance].astype(np.int32),
                "action": linked.every_step(of_actions[runs.action]).astype(np.int32),
                "micro_batch": linked.every_step(runs.micro_batch).astype(np.int32),
                "step": np.repeat(np.arange(linked.steps, dtype=np.int32), len(runs)),
                "base": base,
            }
            for name, column in own_columns.items():
                columns.setdefault(name, []).append(column)
        told = {"instance": instances.listed, "action": actions.listed}
        return Table({name: np.concatenate(parts) for name, parts in columns.items()}, told)

    def _classes(self) -> Table:
        order = {code: number for number, code in enumerate(self.codes)}
        price = np.full((len(self.classes), len(order)), NOTHING, dtype=np.int32)
        first = np.full((len(self.classes), len(self.streams.names)), NOTHING, dtype=np.int64)
        for index, (_, prices, begins) in enumerate(self.classes):
            for code, number in prices.items():
                price[index, order[code]] = number
            for name, begin in begins.items():
                if name in self.streams.names:
                    first[index, self.streams.number(name)] = begin
        scripts = np.array([script for script, _, _ in self.classes], dtype=np.int32)
        return Table({"script": scripts, "price": price, "first": first})
