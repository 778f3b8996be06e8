"""The allocations and releases of a stage, and the instructions that trigger each, without times.

It is the same for all classes of a stage. A row's time is the latest of some moments (a release: the ends of
all who read the buffer), or the earliest (an allocation: the first of all who write it begins).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simcluster.analysis.timeline import InstructionTimes, NameIndex
from simcluster.cluster import Device
from simcluster.engine import ClassProgram
from simcluster.layout import without_root
from simcluster.model import MemoryPlace
from simcluster.program import Category, InstructionBlock, InstructionKind, Program, Scope, Slot

Ints = NDArray[np.int64]

OUTSIDE = ("runtime", "communicators")
"""Buffers outside the framework's allocator: those of the runtime and of the communication library."""

CATEGORIES = tuple(str(category) for category in Category)


@dataclass(frozen=True)
class EventIndex:
    """Numbers for the starts, ends and arrivals of all instructions, code by code, and one for time 0.

    Of a code with E executions of I instructions: first E x I starts, then ends, then arrivals.
    """

    first: Mapping[int, int]
    executions: Mapping[int, Ints]
    instructions: Mapping[int, int]
    zero: int

    @classmethod
    def of(cls, program: Program, linked: ClassProgram) -> EventIndex:
        """The numbers of all events of a class."""
        first: dict[int, int] = {}
        executions = linked.by_code()
        instructions = {code: len(program.codes[code].instructions) for code in executions}
        total = 0
        for code, indices in executions.items():
            first[code] = total
            total += 3 * len(indices) * instructions[code]
        return cls(first, executions, instructions, total)

    def numbered(self) -> dict[int, InstructionTimes]:
        """Code -> the number of every start, end and arrival, in the form of times."""
        numbered = {}
        for code, executions in self.executions.items():
            shape = (3, len(executions), self.instructions[code])
            starts, ends, arrivals = self.first[code] + np.arange(np.prod(shape)).reshape(shape)
            numbered[code] = InstructionTimes(executions, starts, ends, arrivals)
        return numbered

    def values(self, times: Mapping[int, InstructionTimes]) -> Ints:
        """By number: the time of every event."""
        parts = [
            part.ravel()
            for code in self.executions
            for part in (times[code].starts, times[code].ends, times[code].arrivals)
        ]
        return np.concatenate([*parts, np.zeros(1, dtype=np.int64)])


@dataclass(frozen=True)
class AllocationLog:
    """Rows of a stage: +bytes or -bytes at the latest or the earliest of some moments."""

    numbers: EventIndex
    """The moments: events of instructions by number."""
    moments: Ints
    """The numbers of the moments of all rows, row after row."""
    first: Ints
    """Row -> where its moments begin in ``moments``."""
    latest: NDArray[np.bool_]
    """Row -> whether it happens at the latest of its moments; at the earliest otherwise."""
    kinds: Ints
    """Row -> index of its category in ``CATEGORIES``."""
    sizes: Ints
    """Row -> bytes: positive when they are allocated, negative when they are released."""
    buffers: Ints
    """Row -> number of its buffer's name."""
    micro_batches: Ints
    """Row -> its micro-batch; -1 without one."""

    def times(self, times: Mapping[int, InstructionTimes]) -> Ints:
        """Row -> when it happens in a class with these times."""
        return self.decisive(self.numbers.values(times))

    def decisive(self, values: Ints) -> Ints:
        """Row -> the latest or the earliest value of its moments, of values by their numbers."""
        when = values[self.moments]
        latest, earliest = (join.reduceat(when, self.first) for join in (np.maximum, np.minimum))
        return np.asarray(np.where(self.latest, latest, earliest))

    def moments_of(self, row: int) -> Ints:
        """The different moments of a row, in their order."""
        return np.unique(np.split(self.moments, self.first[row : row + 2])[1])


def log_allocations(
    program: Program,
    part: int,
    device: Device,
    linked: ClassProgram,
    buffers: NameIndex,
    place: MemoryPlace = MemoryPlace.DEVICE,
) -> AllocationLog:
    """The allocations of a stage on its device, or those of each rank in memory or on disks of its host."""
    return _Stage(program, part, device, linked, buffers, place).account()


def used_memory_places(program: Program) -> tuple[MemoryPlace, ...]:
    """Host memory and disks, as far as a Program holds anything there."""
    places = {slot.place for code in program.codes for slot in code.slots}
    places |= {resident.place for part in program.parts for resident in part.residents}
    return tuple(place for place in MemoryPlace if place in places and place is not MemoryPlace.DEVICE)


@dataclass(frozen=True, slots=True)
class _Rows:
    """One buffer slot in many executions: per execution its name, buffer number, micro-batch and step.

    ``names`` are those of the instances, ``which`` the instance of each execution.
    """

    slot: Slot
    names: Sequence[str]
    which: Ints
    buffers: Ints
    micro_batches: Ints
    steps: Ints


@dataclass
class _Stage:
    program: Program
    part: int
    device: Device
    linked: ClassProgram
    buffers: NameIndex
    place: MemoryPlace = MemoryPlace.DEVICE
    parts: list[tuple[Ints, bool, Ints, Ints, Ints, Ints]] = field(default_factory=list)
    pending: defaultdict[tuple[str, int, int], list[tuple[list[int], Slot]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    opening: defaultdict[tuple[str, int, int], list[tuple[list[int], Slot]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def account(self) -> AllocationLog:
        """All rows, not yet in order of time."""
        self.moments = EventIndex.of(self.program, self.linked)
        self.times = self.moments.numbered()
        self._residents()
        for code, times in self.times.items():
            self._code(self.program.codes[code], times)
        self._settle()
        moments = np.concatenate([when.ravel() for when, *_ in self.parts])
        rows = [len(when) for when, *_ in self.parts]
        counts = np.repeat([when.shape[1] for when, *_ in self.parts], rows)
        latest = np.repeat([late for _, late, *_ in self.parts], rows)
        columns = (
            np.concatenate(column) for column in zip(*(rest for _, _, *rest in self.parts), strict=True)
        )
        return AllocationLog(self.moments, moments, np.cumsum(counts) - counts, latest, *columns)

    def _residents(self) -> None:
        """What is held from the start: parameters, gradients, states, and what the runtime takes."""
        held = [
            (resident.name, resident.category, resident.num_bytes)
            for resident in self.program.parts[self.part].residents
            if resident.num_bytes and resident.place is self.place
        ]
        held += self._of_the_runtime() if self.place is MemoryPlace.DEVICE else ()
        self._hold(held)

    def _of_the_runtime(self) -> Iterator[tuple[str, Category, int]]:
        """What the runtime and the communication library take of the device."""
        yield "runtime", Category.RUNTIME, self.device.reserved
        meetings = {
            tuple(map(without_root, instruction.group)) or self.program.stage_axis
            for code in self.times
            for instruction in self.program.codes[code].instructions
            if instruction.operation and instruction.action is not InstructionKind.COPY
        }
        workspaces = self.program.workspaces * self.device.workspace
        if workspaces:
            yield "workspaces", Category.RUNTIME, workspaces
        yield "communicators", Category.COMMUNICATION, len(meetings) * self.device.communicator

    def _hold(self, held: Sequence[tuple[str, Category, int]]) -> None:
        """Books what is there from the start."""
        zero = np.zeros(len(held), dtype=np.int64)
        kinds = np.array([CATEGORIES.index(category) for _, category, _ in held], dtype=np.int64)
        names = np.array([self.buffers.number(name) for name, _, _ in held], dtype=np.int64)
        sizes = np.array([size for _, _, size in held], dtype=np.int64)
        self.parts.append((zero[:, None] + self.moments.zero, True, kinds, sizes, names, zero - 1))

    def _code(self, code: InstructionBlock, times: InstructionTimes) -> None:
        executions = [self.linked.executions[index] for index in times.executions.tolist()]
        per_step = len(self.linked.executions) // self.linked.steps
        labels = {
            scope: np.array([execution.label(scope) for execution in executions], dtype=np.int64)
            for scope in {slot.scope for slot in code.slots}
        }
        micro_batches = np.array([execution.micro_batch for execution in executions], dtype=np.int64)
        instances = list(dict.fromkeys(execution.instance for execution in executions))
        order = {instance: index for index, instance in enumerate(instances)}
        which = np.array([order[execution.instance] for execution in executions], dtype=np.int64)
        plan = self.program.parts[self.part]
        for index, instruction in enumerate(code.instructions):
            if instruction.scratch and self.place is MemoryPlace.DEVICE:
                names = [f"{instance}.{instruction.name} (scratch)" for instance in instances]
                buffers = np.array([self.buffers.number(name) for name in names], dtype=np.int64)[which]
                for when, latest, size in ((times.arrivals, False, 1), (times.ends, True, -1)):
                    what = (Category.TEMPORARY, size * instruction.scratch, buffers, micro_batches)
                    self._book(when[:, index : index + 1], latest, *what)
        for index, slot in enumerate(code.slots):
            if slot.scope is Scope.STEP or not slot.num_bytes or slot.place is not self.place:
                continue
            if index not in code.books and index not in code.dropped:
                continue
            names = [plan.buffer(instance, slot.name) for instance in instances]
            numbers = np.array([self.buffers.number(name) for name in names], dtype=np.int64)
            batches = labels[slot.scope] if slot.scope is not Scope.LOCAL else micro_batches
            rows = _Rows(slot, names, which, numbers[which], batches, times.executions // per_step)
            if index in code.books:
                self._allocate(rows, _allocation(code, index, times))
            if index in code.dropped:
                self._release(rows, times.ends[:, code.dropped[index]])

    def _allocate(self, rows: _Rows, when: Ints) -> None:
        """Allocates at once where this code alone writes the buffers, else when the first of all begins."""
        writers = self.program.makers[self.part]
        if rows.slot.scope is Scope.LOCAL or all(writers.get(name, 1) == 1 for name in rows.names):
            self._add(rows, when, False, rows.slot.num_bytes)
            return
        columns = (rows.which, rows.micro_batches, rows.steps, when)
        for which, batch, step, start in zip(*(column.tolist() for column in columns), strict=True):
            self.opening[rows.names[which], batch, step].append((start, rows.slot))

    def _release(self, rows: _Rows, when: Ints) -> None:
        """Releases at once where this code holds every dropper, else when the last code's have ended."""
        references = self.program.references[self.part]
        kept = rows.slot.scope is Scope.KEPT
        if not kept and (
            rows.slot.scope is Scope.LOCAL or all(references[name] == when.shape[1] for name in rows.names)
        ):
            self._add(rows, when, True, -rows.slot.num_bytes)
            return
        columns = (rows.which, rows.micro_batches, rows.steps, when)
        for which, batch, step, end in zip(*(column.tolist() for column in columns), strict=True):
            self.pending[rows.names[which], batch, step].append((end, rows.slot))

    def _settle(self) -> None:
        """Books what several codes write or drop: from the first to begin to the last to end."""
        for key, ends in self.pending.items():
            self._once(key, ends, True)
        for key, starts in self.opening.items():
            self._once(key, starts, False)

    def _once(
        self, key: tuple[str, int, int], sightings: Sequence[tuple[list[int], Slot]], drops: bool
    ) -> None:
        name, batch, step = key
        slot = sightings[0][1]
        # One buffer, however many codes see it: the account would not come out even otherwise.
        assert all(
            (other.num_bytes, other.category) == (slot.num_bytes, slot.category) for _, other in sightings
        )
        numbers = (0, self.buffers.number(name), batch, step)
        rows = _Rows(slot, [name], *(np.array([number], dtype=np.int64) for number in numbers))
        when = np.array([[moment for moments, _ in sightings for moment in moments]], dtype=np.int64)
        self._add(rows, when, drops, -slot.num_bytes if drops else slot.num_bytes)

    def _add(self, rows: _Rows, when: Ints, latest: bool, size: int) -> None:
        self._book(when, latest, rows.slot.category, size, rows.buffers, rows.micro_batches)

    def _book(
        self, when: Ints, latest: bool, category: Category, size: int, buffers: Ints, micro_batches: Ints
    ) -> None:
        kinds = np.full(len(when), CATEGORIES.index(category), dtype=np.int64)
        sizes = np.full(len(when), size, dtype=np.int64)
        self.parts.append((when, latest, kinds, sizes, buffers, micro_batches))


def _allocation(code: InstructionBlock, slot: int, times: InstructionTimes) -> Ints:
    """The moments [executions, moments] of which the earliest books a slot."""
    books = code.books[slot]
    first = code.instructions[books[0]]
    if slot not in first.writes:
        return times.starts[:, books]
    return (times.ends if first.in_place else times.arrivals)[:, books]
