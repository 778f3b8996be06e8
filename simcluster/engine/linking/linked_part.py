"""All executions of a part of a Program strung together: for each stream one long list of entries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.engine.linking.code_entries import NOTHING, CodeEntries
from simcluster.engine.linking.segments import Segments
from simcluster.number_arrays import Ints, offsets
from simcluster.program import COMPUTE, BlockExecution, Executions, Program


@dataclass(frozen=True)
class LinkedStream:
    """The entries of one stream over the whole run: by entry the index of its ``execution``, and its kind,
    one of ``kinds``: these are (code, instruction) of communication, (code, ``NOTHING``) of segments.
    """

    name: str
    execution: Ints
    kind_of: Ints
    kinds: Sequence[tuple[int, int]]

    def __len__(self) -> int:
        return len(self.execution)


@dataclass(frozen=True)
class LinkedPart:
    """What all classes that run a part do, whatever it costs them.

    Entry n of those of all streams, one stream after another, waits for the entries
    ``awaited[first_wait[n]:first_wait[n + 1]]`` of other streams, and for the one before on its own.
    """

    program: Program
    """What it is a part of."""
    codes: Mapping[int, CodeEntries]
    """Those that it runs."""
    streams: tuple[LinkedStream, ...]
    """All that these use, and the compute stream."""
    first_wait: Ints
    """By entry of all streams its first wait; one more at the end."""
    awaited: Ints
    """By wait an entry of all streams."""
    bases: Ints
    """The position of the first entry of each execution [executions, streams]."""
    one_step: Executions
    """The executions of one step."""
    steps: int
    """How often they are run."""

    @cached_property
    def executions(self) -> tuple[BlockExecution, ...]:
        """The executions of all steps, one by one."""
        return self.one_step.objects * self.steps

    @cached_property
    def code_of(self) -> Ints:
        """The code that every execution runs."""
        return self.every_step(self.one_step.code)

    @cached_property
    def instances(self) -> tuple[list[str], Ints]:
        """The names of instances in the order in which they occur, and by execution which one it is for."""
        numbers: dict[str, int] = {}
        of_pair = [numbers.setdefault(name, len(numbers)) for _, name in self.one_step.pairs]
        return list(numbers), self.every_step(np.array(of_pair, dtype=np.int64)[self.one_step.pair])

    def every_step(self, column: Ints) -> Ints:
        """A column of the executions of one step, as one of those of all."""
        return np.tile(column, self.steps)

    def by_code(self) -> dict[int, Ints]:
        """Code -> indices of its executions."""
        order = np.argsort(self.code_of, kind="stable")
        codes, first = np.unique(self.code_of[order], return_index=True)
        return dict(zip(codes.tolist(), np.split(order, first[1:]), strict=True)) if len(codes) else {}

    @property
    def num_entries(self) -> int:
        """Entries of all streams of a class."""
        return int(self.begins[-1])

    @cached_property
    def begins(self) -> Ints:
        """Where the entries of every stream begin among those of all, and where the last end."""
        return offsets([len(stream) for stream in self.streams])

    @cached_property
    def compute(self) -> int:
        """The number of the compute stream."""
        return [stream.name for stream in self.streams].index(COMPUTE)

    @property
    def kernels(self) -> slice:
        """The entries of the compute stream among those of all."""
        return self.entries(self.compute)

    def entries(self, number: int) -> slice:
        """The entries of a stream among those of all."""
        return slice(*self.begins[number : number + 2].tolist())

    def waits_of(self, entries: Ints) -> Iterator[tuple[Ints, Ints]]:
        """What some entries wait for: the first wait of each, then the second ones, and so on. Yields places
        in ``entries``, and for each of them the awaited entry.
        """
        first, last = self.first_wait[entries], self.first_wait[entries + 1]
        places = np.flatnonzero(first < last)
        while len(places):
            yield places, self.awaited[first[places]]
            first += 1
            places = places[first[places] < last[places]]

    @cached_property
    def stream_of(self) -> Ints:
        """By entry of all streams its stream."""
        return np.repeat(np.arange(len(self.streams)), np.diff(self.begins))

    @cached_property
    def previous(self) -> Ints:
        """By entry of all streams the one before on its stream, or ``NOTHING``."""
        previous = np.arange(self.num_entries) - 1
        previous[self.begins[:-1][np.diff(self.begins) > 0]] = NOTHING
        return previous

    def rows(self, *, every: bool) -> Ints:
        """By entry of all streams its place among those of its stream whose ends are recorded: ``every`` one,
        or ``NOTHING`` for kernels that start when the only entry that they wait for ends, as that waited for
        the kernels before. At the end a 0.
        """
        waits = np.diff(self.first_wait)
        first = np.where(waits > 0, np.append(self.awaited, NOTHING)[self.first_wait[:-1]], NOTHING)
        told = (self.stream_of != self.compute) | (waits != 1) | (first[first] != self.previous)
        count = offsets(told | every)
        return np.append(np.where(told | every, count[:-1] - count[self.begins[self.stream_of]], NOTHING), 0)

    @cached_property
    def kind_of(self) -> Ints:
        """By entry of all streams its kind, of the kinds of its stream."""
        return np.concatenate([stream.kind_of for stream in self.streams])

    @cached_property
    def segments(self) -> Segments:
        """The entries of the compute stream."""
        return Segments.of(self.codes, self.streams[self.compute].kind_of)

    def communication(self) -> Iterator[tuple[int, slice, LinkedStream]]:
        """The streams of communication, with their numbers and their entries among those of all."""
        for number, stream in enumerate(self.streams):
            if number != self.compute:
                yield number, self.entries(number), stream

    def meeting_numbers(self, number: int) -> Ints:
        """By entry of a communication stream how often those who meet in it met there before."""
        stream = self.streams[number]
        groups = [self.program.codes[code].instructions[index].group for code, index in stream.kinds]
        before = np.zeros_like(stream.kind_of)
        for group in dict.fromkeys(groups):
            own = np.flatnonzero(np.array([other == group for other in groups])[stream.kind_of])
            before[own] = np.arange(len(own))
        return before

    def sums_by_place(self, of_entry: Ints) -> Iterator[tuple[tuple[int, int], int, int]]:
        """Every (code, instruction) of communication, the sum of what its entries have, and their number."""
        for _, entries, stream in self.communication():
            sums = np.zeros(len(stream.kinds), dtype=np.int64)
            np.add.at(sums, stream.kind_of, of_entry[entries])
            yield from zip(stream.kinds, sums.tolist(), np.bincount(stream.kind_of).tolist(), strict=True)

    @cached_property
    def waits(self) -> Sequence[Sequence[Sequence[tuple[int, int]]]]:
        """By stream and entry what it waits for: streams, and how many entries of each must have ended."""
        stream = self.stream_of[self.awaited]
        rows = list(zip(stream.tolist(), (self.awaited - self.begins[stream] + 1).tolist(), strict=True))
        waits = [rows[first:last] for first, last in pairwise(self.first_wait.tolist())]
        return [waits[self.entries(number)] for number in range(len(self.streams))]
