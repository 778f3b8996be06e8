"""Links the executions of a part: one list of entries for each stream, with what every entry waits for.

Waits between executions are resolved here: who made what a buffer holds, on which streams, at which position.
What a stream already knows to be over is not waited for again. "Everything posted before" an execution is
all entries of the executions before it. All is columns over executions, reads, waits and entries: nothing is
done for one after another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from simcluster.engine.linking.code_entries import CodeEntries
from simcluster.engine.linking.linked_part import LinkedPart, LinkedStream
from simcluster.engine.linking.produced_buffers import waits_for_buffers
from simcluster.engine.linking.row_lists import RowLists
from simcluster.engine.linking.waits import needed_waits
from simcluster.number_arrays import Ints, offsets, rows_of_lists
from simcluster.program import COMPUTE, SENDER_OF, TRANSFER_STREAMS, Program


def link_part(program: Program, part: int, entries: Mapping[int, CodeEntries], steps: int) -> LinkedPart:
    """Links the executions of a part, ``steps`` times over, for all classes that run it."""
    return _Linker(program, part, entries, steps).run()


class _Linker:
    def __init__(self, program: Program, part: int, entries: Mapping[int, CodeEntries], steps: int) -> None:
        self.program, self.plan, self.entries, self.steps = program, program.parts[part], entries, steps
        codes, which = np.unique(self.plan.columns.code, return_inverse=True)
        self.codes: list[int] = codes.tolist()
        self.which = np.tile(which, steps)
        self.numbers: dict[str, int] = {}
        self.local = {
            code: [self.numbers.setdefault(stream, len(self.numbers)) for stream in entries[code].streams]
            for code in self.codes
        }
        self.compute = self.numbers.setdefault(COMPUTE, len(self.numbers))
        self.lengths = np.zeros((len(self.codes), len(self.numbers)), dtype=np.int64)
        for place, code in enumerate(self.codes):
            self.lengths[place, self.local[code]] = list(map(len, entries[code].meetings))
        # Where every execution begins on each stream, and its first entries among those of all streams.
        lengths = self.lengths[self.which]
        self.bases = np.cumsum(lengths, axis=0) - lengths
        self.begins = offsets(lengths.sum(axis=0))
        self.first = self.bases + self.begins[:-1]

    def run(self) -> LinkedPart:
        kinds = [
            waits_for_buffers(
                self.plan, self.program.codes, self.entries, self.local, self.steps, self.first
            ),
            self._for_transfers(),
            self._for_streams(),
            self._for_kernels(),
            self._for_executions(),
            self._inside(),
        ]
        streams = tuple(self._stream(name, number) for name, number in self.numbers.items())
        waits = needed_waits(kinds, self.begins)
        codes = {code: self.entries[code] for code in self.codes}
        return LinkedPart(self.program, codes, streams, *waits, self.bases, self.plan.columns, self.steps)

    def _stream(self, name: str, number: int) -> LinkedStream:
        """The entries of a stream."""
        kinds = [
            (code, instruction)
            for code, own in self.local.items()
            if number in own
            for instruction in self.entries[code].meetings[own.index(number)]
        ]
        return LinkedStream(name, *rows_of_lists(offsets(self.lengths[:, number]), self.which), kinds)

    def _every_step(self, executions: Sequence[int] | Ints) -> Ints:
        """Executions of the first step, and the same of all others."""
        first = np.arange(self.steps) * len(self.plan.columns)
        return (first[:, np.newaxis] + np.asarray(executions, dtype=np.int64)).ravel()

    def _for_all_before(self, execution: Ints, stream: Ints, other: Ints) -> Ints:
        """Waits of executions on a stream for all entries of executions before on another."""
        waits = np.stack([self.first[execution, stream], self.first[execution, other] - 1])
        return waits[:, waits[1] >= self.begins[other]]

    def _for_transfers(self) -> Ints:
        """Of the kernels of executions that wait for transfers: for all of these."""
        transfers = _ints([self.numbers[stream] for stream in TRANSFER_STREAMS if stream in self.numbers])
        has_kernels = self.lengths[self.which[: len(self.plan.columns)], self.compute] > 0
        runs = np.flatnonzero(self.plan.columns.wait_for_transfers & has_kernels)
        execution = self._every_step(np.repeat(runs, len(transfers)))
        return self._for_all_before(
            execution, np.full_like(execution, self.compute), np.resize(transfers, len(execution))
        )

    def _for_streams(self) -> Ints:
        """Of all streams of executions that say so: for everything on some streams."""
        codes = self.plan.columns.code
        rows = [
            (index, own, self.numbers[stream])
            for index, streams in sorted(self.plan.columns.after_streams.items())
            for stream in streams
            if stream in self.numbers
            for own in self.local[codes[index]]
        ]
        runs, stream, other = _ints(rows).reshape(-1, 3).T
        return self._for_all_before(
            self._every_step(runs), np.tile(stream, self.steps), np.tile(other, self.steps)
        )

    def _for_kernels(self) -> Ints:
        """Of receives, which are posted when the kernels before them in program order are done: for these."""
        receives = [self.entries[code].streams[0] in SENDER_OF for code in self.codes]
        execution = np.flatnonzero(np.array(receives, dtype=np.bool_)[self.which])
        stream = _ints([self.local[code][0] for code in self.codes])[self.which[execution]]
        return self._for_all_before(execution, stream, np.full_like(execution, self.compute))

    def _for_executions(self) -> Ints:
        """Of all streams of executions that say so: for others, of the same step or so many before. What was
        before the first step is over.
        """
        rows = [
            (index, place, ago)
            for index, awaited in sorted(self.plan.columns.after.items())
            for place, ago in awaited
        ]
        per_step = len(self.plan.columns)
        runs, place, ago = _ints(rows).reshape(-1, 3).T
        execution = self._every_step(runs)
        awaited = execution + np.tile(place - runs - ago * per_step, self.steps)
        execution, awaited = execution[awaited >= 0], awaited[awaited >= 0]
        streams = RowLists.of([[(own,) for own in self.local[code]] for code in self.codes], 1)
        pair, (other,) = streams.of_each(self.which[awaited])
        execution, awaited = execution[pair], awaited[pair]
        last = self.first[awaited, other] + self.lengths[self.which[awaited], other] - 1
        pair, (stream,) = streams.of_each(self.which[execution])
        return np.stack([self.first[execution[pair], stream], last[pair]])

    def _inside(self) -> Ints:
        """Of entries of all executions for others of the same one."""
        local = (
            [
                (own[stream], entry, own[other], awaited)
                for stream, entry, other, awaited in self.entries[code].waits
            ]
            for code, own in self.local.items()
        )
        rows = RowLists.of(list(local), 4)
        execution, (stream, entry, other, awaited) = rows.of_each(self.which)
        return np.stack([self.first[execution, stream] + entry, self.first[execution, other] + awaited])


def _ints(values: Sequence[int] | Sequence[Sequence[int]]) -> Ints:
    return np.array(values, dtype=np.int64)
