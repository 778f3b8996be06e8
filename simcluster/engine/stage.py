"""The classes of one stage beside each other: one linked structure, durations by class.

Where classes are many and differ in their devices only, everything but the durations is the same for all
classes of a stage: what waits for what, at which position. So it is linked once, and times are vectors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from simcluster.engine.class_program import BARRIER, ClassProgram, LinkedStream
from simcluster.engine.linking import link
from simcluster.engine.pace import PARTS
from simcluster.engine.prices import PricedCode, Prices, SharedPrices
from simcluster.engine.timed import TimedCode
from simcluster.program import InstructionKind, Program

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Stage:
    """One stage: the classes in it by column, and what all of them run.

    Columns lie in ``shape`` (rows, groups): the groups that meet most often are its columns, so that their
    rendezvous is a maximum over the first dim. ``linked`` and ``codes`` are those of the first column,
    ``priced`` holds the durations of all.
    """

    number: int
    columns: Ints
    shape: tuple[int, int]
    favourite: tuple[str, ...]
    linked: ClassProgram
    codes: Mapping[int, TimedCode]
    priced: Mapping[int, PricedCode]

    @classmethod
    def of(cls, program: Program, number: int, indices: Sequence[int], prices: Prices, steps: int) -> Stage:
        """The stage with the given classes."""
        axes = _favourite(program, number, indices, prices)
        columns, shape = _arranged(indices, axes, prices)
        shared = SharedPrices.of(prices, columns.tolist())
        used = sorted(program.parts[number].columns.times())
        codes = prices.timed(int(columns[0]), used)
        priced = {code: shared.of_code(program.codes[code]) for code in used}
        linked = link(program, number, codes, steps)
        return cls(number, columns, shape, axes if shape[0] > 1 else (), linked, codes, priced)

    @cached_property
    def streams(self) -> Mapping[str, int]:
        """Name -> number of every stream."""
        return {stream.name: number for number, stream in enumerate(self.linked.streams)}

    @property
    def num_entries(self) -> int:
        """Entries of all streams of one class."""
        return sum(len(stream) for stream in self.linked.streams)

    @cached_property
    def counts(self) -> Mapping[int, int]:
        """Code -> how often it runs."""
        return {code: len(executions) for code, executions in self.linked.by_code().items()}

    @cached_property
    def _entries(self) -> tuple[Mapping[tuple[int, int], int], Ints]:
        """(code, stream) -> the row of its first entry, and the durations [rows + 1, columns] of entries.

        The last row is zero: entries that only wait.
        """
        first: dict[tuple[int, int], int] = {}
        parts: list[Ints] = []
        total = 0
        for code, each in self.codes.items():
            duration = self.priced[code].duration
            for local, (name, track) in enumerate(zip(each.streams, each.tracks, strict=True)):
                first[code, self.streams[name]] = total
                found = np.zeros((len(track), len(self.columns)), dtype=np.int64)
                mine = np.flatnonzero(each.stream_of == local)
                np.add.at(found, each.entry[mine], duration[mine])
                parts.append(found)
                total += len(track)
        parts.append(np.zeros((1, len(self.columns)), dtype=np.int64))
        return first, np.concatenate(parts)

    @property
    def durations(self) -> Ints:
        """Durations [rows, columns] of the different entries; the last row is zero."""
        return self._entries[1]

    def rows(self, stream: int) -> Ints:
        """Per entry of a stream the row of its durations."""
        each = self.linked.streams[stream]
        first, durations = self._entries
        found = np.full(len(each), len(durations) - 1, dtype=np.int64)
        mine = np.flatnonzero(each.execution != BARRIER)
        executions = each.execution[mine]
        per_step = len(self.linked.executions) // self.linked.steps
        of_code = np.array([run.code for run in self.linked.executions[:per_step]], dtype=np.int64)
        table = np.zeros(max(self.codes, default=0) + 1, dtype=np.int64)
        for code in self.codes:
            table[code] = first.get((code, stream), 0)
        found[mine] = table[of_code[executions % per_step]] + mine - self.linked.bases[executions, stream]
        return found

    def kernels(self, stream: int) -> Ints:
        """How many instructions each entry of a stream runs."""
        counts = np.zeros(len(self.durations), dtype=np.int64)
        first, _ = self._entries
        for code, each in self.codes.items():
            for local, name in enumerate(each.streams):
                if self.streams[name] == stream:
                    mine = np.flatnonzero(each.stream_of == local)
                    np.add.at(counts, first[code, stream] + each.entry[mine], 1)
        return counts[self.rows(stream)]

    def kernel_parts(self, kernels: Sequence[tuple[int, Ints]], column: int) -> Ints:
        """The parts [kernels, ``PARTS``] of kernels of a column; the last is all if nothing slows them."""
        parts = []
        for code, own in kernels:
            priced = self.priced[code]
            if len(priced.parts):
                parts.append(priced.parts[own, :, column])
            else:
                parts.append(np.zeros((len(own), PARTS), dtype=np.int64))
                parts[-1][:, -1] = priced.duration[own, column]
        return np.concatenate([np.zeros((0, PARTS), dtype=np.int64), *parts])

    def parts(self, stream: int, entry: int) -> Ints:
        """The parts [kernels, ``PARTS``, columns] of what an entry of the stream of kernels runs."""
        each = self.linked.streams[stream]
        execution = int(each.execution[entry])
        code = self.linked.executions[execution].code
        timed = self.codes[code]
        local = entry - int(self.linked.bases[execution, stream])
        mine = (timed.stream_of == timed.streams.index(each.name)) & (timed.entry == local)
        return self.priced[code].parts[np.flatnonzero(mine)]

    def one(self, column: int) -> ClassProgram:
        """The linked entries of one column."""
        streams = tuple(
            LinkedStream(
                each.name,
                each.wait_stream,
                each.wait_position,
                self.durations[self.rows(number), column],
                each.meeting,
                each.execution,
            )
            for number, each in enumerate(self.linked.streams)
        )
        return replace(self.linked, streams=streams)


def _favourite(program: Program, number: int, indices: Sequence[int], prices: Prices) -> tuple[str, ...]:
    """The axes over which the stage's classes meet most often, if their groups are equal and inside it."""
    counts: dict[tuple[str, ...], int] = {}
    for execution in program.parts[number].executions:
        for each in program.codes[execution.code].instructions:
            if each.action is InstructionKind.COLLECTIVE:
                counts[each.group] = counts.get(each.group, 0) + 1
    inside = set(indices)
    for axes in sorted(counts, key=lambda axes: (-counts[axes], axes)):
        groups = [prices.classes.groups[index, axes] for index in indices]
        sizes = {len(group.members) for group in groups}
        different = {group.id: group for group in groups}
        if len(sizes) == 1 and all(inside.issuperset(group.members) for group in different.values()):
            return axes
    return ()


def _arranged(indices: Sequence[int], axes: tuple[str, ...], prices: Prices) -> tuple[Ints, tuple[int, int]]:
    """The classes in an order in which those of one group over ``axes`` lie a whole row apart."""
    if not axes:
        return np.array(indices, dtype=np.int64), (1, len(indices))
    groups = {prices.classes.groups[index, axes].id: prices.classes.groups[index, axes] for index in indices}
    members = np.array([group.members for group in groups.values()], dtype=np.int64)
    return members.T.ravel(), (members.shape[1], members.shape[0])
