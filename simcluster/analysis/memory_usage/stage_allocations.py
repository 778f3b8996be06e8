"""What a stage allocates and releases, from its codes: rows of columns, for all executions at once.

Executions of a code for one instance allocate the same buffers: they are a *group* of rows that differ in
their moments and micro-batches only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace
from typing import Any, NamedTuple

import numpy as np

from simcluster.analysis.memory_usage.allocation_log import CATEGORIES, AllocationLog
from simcluster.analysis.timeline import ARRIVAL, END, START, EventIndex
from simcluster.cluster import Device
from simcluster.deferred_dataclass import dataclass
from simcluster.engine import NOTHING, LinkedPart
from simcluster.layout import without_root
from simcluster.model import MemoryPlace
from simcluster.number_arrays import Ints, offsets, rows_of_lists
from simcluster.program import Category, InstructionBlock, InstructionKind, Program, Scope
from simcluster.trace import NameIndex, number_by_appearance

_KINDS = {category: CATEGORIES.index(category) for category in Category}

_LABELLED = (Scope.MICRO_BATCH, Scope.KEPT, Scope.STEP)
"""Scopes of which executions have labels: the micro-batch of a buffer."""

_ALONE, _IF_SEVERAL, _SHARED = range(3)
"""Rows of buffers that nobody else books, of those that several codes may book, and of those that they do."""


class _Group(NamedTuple):
    """Rows of one slot of a code: a buffer for each of its instances, in all executions of a run.

    ``moments`` are those of the first execution of the code; ``label`` says which of the labels of executions
    the micro-batch is. Where it is ``shared``, others may write or drop the same, at moments of their own.
    """

    buffers: Ints
    runs: Ints
    moments: Sequence[int]
    kind: int
    size: int
    label: int
    shared: int


@dataclass
class StageAllocations:
    """What a stage allocates on its device, or each of its ranks in memory or on disks of its host."""

    program: Program
    part: int
    device: Device
    linked: LinkedPart
    names: NameIndex
    place: MemoryPlace
    groups: list[_Group] = field(default_factory=list)

    def log(self) -> AllocationLog:
        """All rows."""
        self.moments = EventIndex.of(self.linked)
        # The executions of every run, and how far their moments are from those of the first of the code. Run
        # 0 stands for what is held from the start, without any execution.
        self.listed, self.strides = [np.full(1, NOTHING)], [np.zeros(1, dtype=np.int64)]
        self.lengths = [1]
        self._residents()
        for code, executions in self.moments.executions.items():
            self._code(code, executions)
        return self._rows()

    def _residents(self) -> None:
        """What is held from the start: parameters, gradients, states, and what the runtime takes."""
        held: defaultdict[tuple[Category, int], list[int]] = defaultdict(list)
        for name, category, size in self._resident_buffers():
            held[category, size].append(self.names.number(name))
        for (category, size), numbers in held.items():
            buffers = np.array(numbers, dtype=np.int64)
            self._book(buffers, np.zeros_like(buffers), [self.moments.zero], size, category, Scope.STEP)

    def _resident_buffers(self) -> Iterator[tuple[str, Category, int]]:
        """Their names, categories and bytes: those of the stage, then what the runtime and the communication
        library take of the device.
        """
        for resident in self.program.parts[self.part].residents:
            if resident.num_bytes and resident.place is self.place:
                yield resident.name, resident.category, resident.num_bytes
        if self.place is not MemoryPlace.DEVICE:
            return
        yield "runtime", Category.RUNTIME, self.device.reserved
        meetings = {
            tuple(map(without_root, instruction.group)) or self.program.stage_axis
            for code in self.moments.executions
            for instruction in self.program.codes[code].instructions
            if instruction.operation and instruction.action is not InstructionKind.COPY
        }
        size = self.device.workspace if self.program.workspace is None else self.program.workspace
        workspaces = self.program.workspaces * size
        if workspaces:
            yield "workspaces", Category.RUNTIME, workspaces
        yield "communicators", Category.COMMUNICATION, len(meetings) * self.device.communicator

    def _code(self, number: int, executions: Ints) -> None:
        """What a code books, instance by instance; its scratch is only there while an instruction runs."""
        code, (names, instance) = self.program.codes[number], self.linked.instances
        numbers, which = number_by_appearance(instance[executions])
        by_instance = np.argsort(which, kind="stable")
        self.listed.append(executions[by_instance])
        self.strides.append(by_instance * len(code.instructions))
        runs = len(self.lengths) + np.arange(len(numbers))
        self.lengths += np.bincount(which).tolist()
        instances = [names[number] for number in numbers.tolist()]

        def moments(event: int, instructions: Iterable[int]) -> Sequence[int]:
            first = event * self.moments.count + self.moments.first[number]
            return [first + instruction for instruction in instructions]

        for index, instruction in enumerate(code.instructions):
            if instruction.scratch and self.place is MemoryPlace.DEVICE:
                buffers = self.names.numbers(f"{name}.{instruction.name} (scratch)" for name in instances)
                for event, size in ((ARRIVAL, instruction.scratch), (END, -instruction.scratch)):
                    self._book(buffers, runs, moments(event, [index]), size, Category.TEMPORARY, Scope.LOCAL)
        for index in sorted({*code.books, *code.dropped}):
            slot = code.slots[index]
            if slot.scope is Scope.STEP or not slot.num_bytes or slot.place is not self.place:
                continue
            buffers = self.names.numbers(self.program.parts[self.part].buffers(instances, slot.name))
            if index in code.books:
                booked = moments(_booked(code, index), code.books[index])
                self._book(buffers, runs, booked, slot.num_bytes, slot.category, slot.scope)
            if index in code.dropped:
                dropped = moments(END, code.dropped[index])
                self._book(buffers, runs, dropped, -slot.num_bytes, slot.category, slot.scope)

    def _book(
        self, buffers: Ints, runs: Ints, moments: Sequence[int], size: int, category: Category, scope: Scope
    ) -> None:
        """Books buffers, one for each run, at some moments."""
        shared = _IF_SEVERAL if scope is Scope.MICRO_BATCH else _ALONE
        if scope is Scope.KEPT and size < 0:
            shared = _SHARED
        label = _LABELLED.index(Scope.MICRO_BATCH if scope is Scope.LOCAL else scope)
        self.groups.append(_Group(buffers, runs, moments, _KINDS[category], size, label, shared))

    def _rows(self) -> AllocationLog:
        """The rows of all groups, in the order of logs."""
        groups, nothing = self.groups, np.zeros(0, dtype=np.int64)
        buffers, runs = (np.concatenate([nothing, *(group[n] for group in groups)]) for n in range(2))
        scalars = np.array([group[3:] for group in groups], dtype=np.int64).reshape(len(groups), 4)
        of_group = np.repeat(np.arange(len(groups)), [len(group.buffers) for group in groups])
        keys = (scalars[of_group, 1] > 0) * len(self.names.names) + buffers
        order = np.argsort(keys, kind="stable")
        keys, buffers, runs, of_group = (column[order] for column in (keys, buffers, runs, of_group))
        kinds, sizes, labels, sharing = scalars[of_group].T
        times = np.bincount(keys[sharing == _IF_SEVERAL], minlength=int(keys.max(initial=0)) + 1)
        shared = (sharing == _SHARED) | ((sharing == _IF_SEVERAL) & (times[keys] > 1))
        _, places = rows_of_lists(offsets(self.lengths), runs)
        lengths = np.array(self.lengths)[runs]
        listed = np.concatenate(self.listed)
        linked, one_step = self.linked, self.linked.one_step
        by_scope = [np.append(linked.every_step(one_step.labels(scope)), -1)[listed] for scope in _LABELLED]
        moments, first = self._moments(of_group, lengths, np.concatenate(self.strides)[places])
        seen = np.flatnonzero(np.repeat(shared, lengths))
        steps = listed[places[seen]] // max(1, len(one_step))
        places += np.repeat(labels * len(listed), lengths)
        repeated: Any = (kinds.astype(np.int8), sizes, buffers.astype(np.int32))
        columns = (
            *(np.repeat(column, lengths) for column in repeated),
            np.concatenate(by_scope).astype(np.int32)[places],
        )
        return _together(AllocationLog(self.moments, moments, first, *columns), seen, steps)

    def _moments(self, of_group: Ints, lengths: Ints, inside: Ints) -> tuple[Ints, Ints]:
        """The moments of the rows of groups, and where those of each begin."""
        moments = [group.moments for group in self.groups]
        every = np.array([moment for own in moments for moment in own], dtype=np.int64)
        if len(every) == len(moments):
            inside += np.repeat(every[of_group], lengths)
            return inside, np.arange(len(inside) + 1)
        first = offsets([len(own) for own in moments])
        of_group = np.repeat(of_group, lengths)
        row, nth = rows_of_lists(first, of_group)
        return inside[row] + every[nth], offsets(np.diff(first)[of_group])


def _together(log: AllocationLog, shared: Ints, steps: Ints) -> AllocationLog:
    """The rows of which the ``shared`` ones, of these ``steps``, are one for each buffer, with all moments of
    all codes: from the first to begin to the last to end.
    """
    if not len(shared):
        return log
    labels = log.micro_batches[shared] + 1
    buffers = 2 * log.buffers[shared].astype(np.int64) + (log.sizes[shared] > 0)
    same = (buffers * (int(steps.max()) + 1) + steps) * (int(labels.max()) + 1) + labels
    _, first, which = np.unique(same, return_index=True, return_inverse=True)
    every = np.arange(len(log.sizes))
    owner = every.copy()
    owner[shared] = shared[first[which]]
    # One buffer, however many codes see it: the account would not come out even otherwise.
    assert (log.kinds == log.kinds[owner]).all() and (log.sizes == log.sizes[owner]).all()
    owners = np.flatnonzero(owner == every)
    of_moments = np.repeat(owner, np.diff(log.first))
    return replace(
        log.chosen(owners),
        moments=log.moments[np.argsort(of_moments, kind="stable")],
        first=offsets(np.bincount(of_moments, minlength=len(owner))[owners]),
    )


def _booked(code: InstructionBlock, slot: int) -> int:
    """The moment of its writers at which a slot is booked."""
    first = code.instructions[code.books[slot][0]]
    if slot not in first.writes:
        return START
    return END if first.in_place else ARRIVAL
