"""Links the executions of a part: one list of entries for each stream, with what every entry waits for.

Waits between executions are resolved here: who made what a buffer holds, on which streams, at which position.
What a stream already knows to be over is not waited for again. All is columns over executions, reads, waits
and entries: nothing is done for one after another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from simcluster.engine.linking.code_entries import NOTHING, CodeEntries
from simcluster.engine.linking.linked_part import BARRIER, LinkedPart, LinkedStream
from simcluster.engine.linking.produced_buffers import waits_for_buffers
from simcluster.engine.linking.row_lists import RowLists
from simcluster.engine.linking.waits import NeededWaits, Waits
from simcluster.number_arrays import Ints, offsets
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
            self.lengths[place, self.local[code]] = [len(track) for track in entries[code].tracks]

    def run(self) -> LinkedPart:
        lengths = self.lengths[self.which]
        kinds = [
            waits_for_buffers(self.plan, self.program.codes, self.entries, self.local, self.steps),
            self._for_transfers(),
            self._for_streams(),
            self._for_kernels(),
            self._for_executions(),
        ]
        needed = NeededWaits.of(Waits.in_order(kinds), lengths)
        before = np.cumsum(lengths, axis=0) - lengths
        streams = [
            self._stream(name, number, needed, before[:, number]) for name, number in self.numbers.items()
        ]
        return LinkedPart(
            self.program, self.entries, tuple(streams), needed.bases, self.plan.columns, self.steps
        )

    def _stream(self, name: str, number: int, needed: NeededWaits, before: Ints) -> LinkedStream:
        """The entries of a stream; ``before`` [executions] counts those of earlier executions that are no
        waits.
        """
        rows = [np.zeros((3, 0), dtype=np.int64)]
        for code, own in self.local.items():
            if number in own:
                track = self.entries[code].tracks[own.index(number)]
                # The last number of the table is that of no stream at all.
                other = _ints([*own, NOTHING])[track.wait_stream]
                rows.append(np.stack([other, track.wait_position, track.meeting]))
        lists = RowLists(offsets(self.lengths[:, number]), np.concatenate(rows, axis=1))
        execution, (stream, position, meeting) = lists.of_each(self.which)
        # Waits inside a code are relative to where the code begins on the stream that is waited for.
        inside = np.flatnonzero(stream != NOTHING)
        position[inside] += needed.bases[execution[inside], stream[inside]]
        waits = np.flatnonzero(needed.waits.stream == number)
        waiting = before[needed.waits.execution[waits]] + np.arange(len(waits))
        does = np.ones(len(meeting) + len(waits), dtype=np.bool_)
        does[waiting] = False
        columns = np.empty((4, len(does)), dtype=np.int64)
        columns[:, does] = stream, position, meeting, execution
        columns[:2, waiting] = needed.waits.other[waits], needed.ended[waits]
        columns[2:, waiting] = [[NOTHING], [BARRIER]]
        return LinkedStream(name, *columns)

    def _every_step(self, executions: Sequence[int] | Ints) -> Ints:
        """Executions of the first step, and the same of all others."""
        first = np.arange(self.steps) * len(self.plan.columns)
        return (first[:, np.newaxis] + np.asarray(executions, dtype=np.int64)).ravel()

    def _for_transfers(self) -> Waits:
        """Of the kernels of executions that wait for transfers: for all of these."""
        transfers = _ints([self.numbers[stream] for stream in TRANSFER_STREAMS if stream in self.numbers])
        runs = np.repeat(np.flatnonzero(self.plan.columns.wait_for_transfers), len(transfers))
        execution = self._every_step(runs)
        other = np.resize(transfers, len(execution))
        return Waits.for_all_before(execution, np.full_like(execution, self.compute), other)

    def _for_streams(self) -> Waits:
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
        return Waits.for_all_before(
            self._every_step(runs), np.tile(stream, self.steps), np.tile(other, self.steps)
        )

    def _for_kernels(self) -> Waits:
        """Of receives, which are posted when the kernels before them in program order are done: for these."""
        receives = [self.entries[code].streams[0] in SENDER_OF for code in self.codes]
        execution = np.flatnonzero(np.array(receives, dtype=np.bool_)[self.which])
        stream = _ints([self.local[code][0] for code in self.codes])[self.which[execution]]
        return Waits.for_all_before(execution, stream, np.full_like(execution, self.compute))

    def _for_executions(self) -> Waits:
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
        tracks = (zip(self.local[code], self.entries[code].tracks, strict=True) for code in self.codes)
        streams = RowLists.of([[(own, len(track)) for own, track in of_code] for of_code in tracks], 2)
        pair, (other, position) = streams.of_each(self.which[awaited])
        execution, awaited = execution[pair], awaited[pair]
        pair, (stream, _) = streams.of_each(self.which[execution])
        return Waits(execution[pair], stream, other[pair], awaited[pair], position[pair])


def _ints(values: Sequence[int] | Sequence[Sequence[int]]) -> Ints:
    return np.array(values, dtype=np.int64)
