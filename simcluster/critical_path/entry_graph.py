"""What every entry of every stream waited for: the columns that the critical path and slack are read from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from simcluster.critical_path.gate_entries import GateEntries
from simcluster.critical_path.path_limit import MOST_ENTRIES, may_have_critical_path
from simcluster.deferred_dataclass import dataclass
from simcluster.engine import NOTHING, GroupTiming, LinkedPart, Timing, Who, meeting_of
from simcluster.errors import TraceError
from simcluster.number_arrays import Ints, offsets, rows_of_lists
from simcluster.program import Program, RankClasses


@dataclass(frozen=True)
class EntryBlock:
    """The entries of the classes of one group: entry e of column c is ``first`` + e x width + c."""

    first: int
    timing: GroupTiming

    @property
    def width(self) -> int:
        """How many classes there are."""
        return len(self.timing.group.indices)

    @property
    def part(self) -> LinkedPart:
        """What they run."""
        return self.timing.group.part

    @property
    def size(self) -> int:
        """How many entries there are."""
        return self.part.num_entries * self.width

    def spread(self, of_entry: Ints) -> Ints:
        """Entries of the part, as those of every class."""
        columns = np.arange(self.width)
        absolute = self.first + of_entry[:, np.newaxis] * self.width + columns
        return np.where(of_entry[:, np.newaxis] == NOTHING, NOTHING, absolute).ravel()


@dataclass(frozen=True)
class EntryGraph:
    """The entries of all classes, one group after another; arrays [entries], times in nanoseconds.

    An entry starts when the ``previous`` one of its stream and the ``awaited`` ones of its class are over,
    and a collective or transfer when the last of its members is ready.
    """

    timing: Timing
    """The run."""
    blocks: Sequence[EntryBlock]
    """Where the entries of each group of classes are."""
    starts: Ints
    """When each began."""
    ready: Ints
    """When it could have begun: when what it waits for was over."""
    ends: Ints
    """When it was over."""
    previous: Ints
    """The entry before on its stream; ``NOTHING`` of the first."""
    first_wait: Ints
    """Where its waits begin; one more, where the last end."""
    awaited: Ints
    """By wait an entry of another stream of its class."""
    node: Ints
    """Of those who meet the number of the first of them, else its own."""
    gates: GateEntries
    """Who waits at gates, and who opens them; waiting there takes no time of its own."""

    @classmethod
    def of(cls, program: Program, classes: RankClasses, timing: Timing) -> EntryGraph:
        """The graph of a run; TraceError where there are too many entries."""
        if not may_have_critical_path(timing):
            raise TraceError(
                f"the critical path of {timing.num_events:,} entries of streams is not looked for",
                hint=f"of {MOST_ENTRIES:,} at most: a part of the cluster, or no jitter, has fewer",
            )
        sizes = [group.group.part.num_entries * len(group.group.indices) for group in timing.groups]
        firsts = np.cumsum([0, *sizes])[:-1].tolist()
        blocks = [EntryBlock(first, group) for first, group in zip(firsts, timing.groups, strict=True)]
        starts, ready, ends, previous, num_waits, awaited = (
            np.concatenate([np.zeros(0, dtype=np.int64), *columns])
            for columns in zip(*(_columns(block) for block in blocks), strict=True)
        )
        node = np.arange(len(starts))
        entries, number = _Meetings(program, classes).of_blocks(blocks)
        _, first, which = np.unique(number, return_index=True, return_inverse=True)
        node[entries] = entries[first][which]
        gates = GateEntries.of(program, classes, list(zip(firsts, timing.groups, strict=True)))
        waiting = np.array(list(gates.waits), dtype=np.int64)
        starts[waiting] = ends[waiting]
        return cls(timing, blocks, starts, ready, ends, previous, offsets(num_waits), awaited, node, gates)

    @property
    def end(self) -> int:
        """When the run ends (ns)."""
        return self.timing.end

    def by_block(self, entries: Ints) -> Iterator[tuple[EntryBlock, Ints, Ints, Ints]]:
        """Some entries by block: their places among them, and their entries of the part and columns."""
        firsts = np.array([block.first for block in self.blocks], dtype=np.int64)
        which = np.searchsorted(firsts, entries, side="right") - 1
        for number, block in enumerate(self.blocks):
            places = np.flatnonzero(which == number)
            yield block, places, *np.divmod(entries[places] - block.first, block.width)

    def classes_of(self, entries: Ints) -> Ints:
        """The class of each of some entries."""
        classes = np.zeros(len(entries), dtype=np.int64)
        for block, places, _, column in self.by_block(entries):
            classes[places] = np.array(block.timing.group.indices)[column]
        return classes

    def waits_of(self, entry: int) -> list[int]:
        """The entries of other streams that one waits for."""
        return list(self.awaited[self.first_wait[entry] : self.first_wait[entry + 1]].tolist())

    @cached_property
    def members(self) -> Ints:
        """The entries that meet others, those of one node next to each other, rising."""
        meeting = np.flatnonzero(np.bincount(self.node, minlength=len(self.node))[self.node] > 1)
        return meeting[np.argsort(self.node[meeting], kind="stable")]

    def members_of(self, node: int) -> Ints:
        """Those that meet in a node."""
        nodes = self._nodes_of_members
        return self.members[np.searchsorted(nodes, node) : np.searchsorted(nodes, node, side="right")]

    @cached_property
    def _nodes_of_members(self) -> Ints:
        return self.node[self.members]


def _columns(block: EntryBlock) -> tuple[Ints, ...]:
    """Starts, when it was ready, ends, previous and number of waits of all its entries; all they wait for."""
    part, timing = block.part, block.timing
    ready, starts = timing.begins(np.arange(part.num_entries), slice(None))
    times = starts, ready, timing.ends(np.arange(part.num_entries))
    entries = np.repeat(np.arange(part.num_entries), block.width)
    owner, waits = rows_of_lists(part.first_wait, entries)
    awaited = block.first + part.awaited[waits] * block.width + owner % block.width
    num_waits = np.diff(part.first_wait)[entries]
    return *(column.ravel() for column in times), block.spread(part.previous), num_waits, awaited


@dataclass(frozen=True)
class _Meetings:
    """Numbers for all meetings of a run."""

    program: Program
    classes: RankClasses

    def of_blocks(self, blocks: Sequence[EntryBlock]) -> tuple[Ints, Ints]:
        """The entries that meet somebody, and a number for each that those who meet have in common."""
        known: dict[Who, int] = {}
        entries, who, ordinal = ([np.zeros(0, dtype=np.int64)] for _ in range(3))
        for block in blocks:
            for number, rows, stream in block.part.communication():
                met = self._met(block, stream.kinds, known)[stream.kind_of]
                row, column = np.nonzero(met != NOTHING)
                entries.append(block.first + (rows.start + row) * block.width + column)
                who.append(met[row, column])
                ordinal.append(block.part.meeting_numbers(number)[row])
        count = np.concatenate(ordinal)
        return np.concatenate(entries), np.concatenate(who) * (int(count.max(initial=0)) + 1) + count

    def _met(self, block: EntryBlock, places: Sequence[tuple[int, int]], known: dict[Who, int]) -> Ints:
        """By kind of entry and class: the number of who meets; ``NOTHING`` of who is alone."""
        met = np.full((len(places), block.width), NOTHING, dtype=np.int64)
        same: dict[tuple[object, ...], int] = {}
        for kind, (code, place) in enumerate(places):
            instruction = self.program.codes[code].instructions[place]
            key = instruction.action, instruction.stream, instruction.group
            if key in same:
                met[kind] = met[same[key]]
                continue
            same[key] = kind
            for column, index in enumerate(block.timing.group.indices):
                who, size = meeting_of(self.classes, index, instruction)
                if size > 1:
                    met[kind, column] = known.setdefault(who, len(known))
        return met
