"""Waits for what is in buffers: who made it last, on which streams, in which execution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.engine.linking.code_entries import CodeEntries
from simcluster.engine.linking.row_lists import RowLists
from simcluster.number_arrays import Ints
from simcluster.program import InstructionBlock, Scope, StageProgram

_LABELS = {Scope.STEP: 0, Scope.MICRO_BATCH: 1, Scope.KEPT: 2}
"""Which label of an execution tells buffers of one name apart; see ``BlockExecution.label``."""


def waits_for_buffers(
    plan: StageProgram,
    codes: Sequence[InstructionBlock],
    entries: Mapping[int, CodeEntries],
    streams: Mapping[int, Sequence[int]],
    steps: int,
    first: Ints,
) -> Ints:
    """The waits of a part's executions, ``steps`` times over, for those that made what they read, as in
    ``needed_waits``.

    ``streams`` has by code the numbers of its streams, ``first`` [executions, streams] the first entries.
    """
    reads, writes, num_names = _uses(plan, codes, entries, streams, plan.columns.pairs)
    labels = np.tile(np.stack([plan.columns.labels(scope) for scope in _LABELS]) + 1, steps)
    kind = np.tile(plan.columns.pair, steps)
    writer, (name, label, stream, entry, adds) = writes.of_each(kind)
    makers = _Makers.of(
        name + num_names * labels[label, writer], writer, stream, first[writer, stream] + entry, adds
    )
    reader, (name, label, stream) = reads.of_each(kind)
    place, maker = makers.before(name + num_names * labels[label, reader], reader)
    return np.stack([first[reader, stream][place], makers.entry[maker]])


def _uses(
    plan: StageProgram,
    codes: Sequence[InstructionBlock],
    entries: Mapping[int, CodeEntries],
    streams: Mapping[int, Sequence[int]],
    pairs: Sequence[tuple[int, str]],
) -> tuple[RowLists, RowLists, int]:
    """What codes read of others and write for others when they run for instances, and the number of names.

    Rows of reads are (name, label, stream), of writes (name, label, stream, entry, whether it only adds):
    names by number, labels as in ``_LABELS``. What no other stream writes is not read.
    """
    place = {code: number for number, code in enumerate(streams)}
    which = np.array([place[code] for code, _ in pairs], dtype=np.int64)

    def rows(uses: Mapping[int, Sequence[tuple[int, ...]]], num_columns: int) -> tuple[Ints, Ints]:
        """By row the place of its pair, and the rows [columns, rows] of all pairs, of uses by code."""
        slots = {code: [codes[code].slots[slot] for slot, *_ in used] for code, used in uses.items()}
        lists = [
            [
                (0, _LABELS[slot.scope], streams[code][stream], *more)
                for slot, (_, stream, *more) in zip(slots[code], used, strict=True)
            ]
            for code, used in uses.items()
        ]
        owner, columns = RowLists.of(lists, num_columns).of_each(which)
        names = {code: [slot.name for slot in own] for code, own in slots.items()}
        columns[0] = plan.buffer_numbers.of((instance, names[code]) for code, instance in pairs)
        return owner, columns

    reader, read = rows({code: entries[code].incoming for code in streams}, 3)
    writer, written = rows({code: entries[code].outgoing for code in streams}, 5)
    # A stream does not wait for itself.
    count = len(plan.buffer_numbers)
    lowest, highest = np.full(count, np.iinfo(np.int64).max), np.full(count, -1)
    np.minimum.at(lowest, written[0], written[2])
    np.maximum.at(highest, written[0], written[2])
    name, _, stream = read
    waiting = np.flatnonzero((highest[name] >= 0) & ((lowest[name] != stream) | (highest[name] != stream)))
    awaited = np.zeros(count, dtype=np.bool_)
    awaited[name[waiting]] = True
    making = np.flatnonzero(awaited[written[0]])
    return (
        RowLists.grouped(reader[waiting], len(pairs), read[:, waiting]),
        RowLists.grouped(writer[making], len(pairs), written[:, making]),
        count,
    )


@dataclass(frozen=True, slots=True)
class _Makers:
    """Who makes what is in buffers: arrays [writes], buffer by buffer, of one in the order of executions.

    ``fresh`` is the write that began anew what is in the buffer; those behind it have added to it. ``turn``
    numbers the streams that did, in the order in which they came first; there are at most ``num_streams``.
    """

    buffer: Ints
    execution: Ints
    stream: Ints
    entry: Ints
    fresh: Ints
    turn: Ints
    num_streams: int

    @classmethod
    def of(cls, buffer: Ints, execution: Ints, stream: Ints, entry: Ints, adds: Ints) -> _Makers:
        """Those of writes in the order of executions, as ``record_producer`` notes them."""
        order = np.argsort(buffer, kind="stable")
        buffer, execution, stream = buffer[order], execution[order], stream[order]
        begins = adds[order] == 0
        begins[:1] = True
        begins[1:] |= buffer[1:] != buffer[:-1]
        fresh = np.flatnonzero(begins)[np.cumsum(begins) - 1]
        turn = np.zeros_like(buffer)
        if (stream != stream[fresh]).any():
            keys = fresh * (int(stream.max()) + 1) + stream
            _, first, which = np.unique(keys, return_index=True, return_inverse=True)
            came = np.empty_like(first)
            came[np.argsort(first)] = np.arange(len(first))
            turn = (came[which] - came[which[fresh]]).astype(np.int64)
        return cls(buffer, execution, stream, entry[order], fresh, turn, int(turn.max(initial=0)) + 1)

    def before(self, buffer: Ints, execution: Ints) -> tuple[Ints, Ints]:
        """Of reads of buffers by executions, in their order: places of reads, and writes that they wait for.

        Each waits for the last write of every stream since the buffer was begun anew.
        """
        bound = 1 + max(int(execution.max(initial=0)), int(self.execution.max(initial=0)))
        latest = np.searchsorted(self.buffer * bound + self.execution, buffer * bound + execution) - 1
        place = np.flatnonzero(latest >= 0)
        place = place[self.buffer[latest[place]] == buffer[place]]
        latest = latest[place]
        writes = np.arange(len(self.turn))
        of_turns = [
            np.maximum.accumulate(np.where(self.turn == turn, writes, -1))[latest]
            for turn in range(self.num_streams)
        ]
        last = np.stack(of_turns, axis=1)
        made = last >= self.fresh[latest][:, np.newaxis]
        return np.repeat(place, made.sum(axis=1)), last[made]
