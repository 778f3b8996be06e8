"""The memory account: when every buffer of every class is allocated and released, and what that adds up to.

Allocation never blocks, so the account follows from the times alone: a buffer is allocated when its writer
starts (a receive: when it is posted; in place: when it ends) and released when its last reader has ended.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simcluster.cluster import Device
from simcluster.engine.spans import InstructionTimes, Vocabulary
from simcluster.engine.timing import ClassTiming
from simcluster.program import Category, Code, Program, Scope, Slot
from simcluster.program.lower import FORWARD
from simcluster.trace import Table, concatenated

Ints = NDArray[np.int64]

CATEGORIES = tuple(str(category) for category in Category)
COLUMNS = ("time", "class", "category", "bytes", "buffer", "micro_batch")


def memory(
    program: Program,
    stages: Sequence[int],
    devices: Sequence[Device],
    timings: Sequence[ClassTiming],
    times: Sequence[Mapping[int, InstructionTimes]],
) -> Table:
    """The table of allocations (+bytes) and releases (-bytes), sorted by class and time, releases first.

    ``stages`` and ``devices`` are those of each class.
    """
    buffers = Vocabulary()
    parts = [
        _ClassMemory(program, stages[index], devices[index], timing, times[index], buffers).table(index)
        for index, timing in enumerate(timings)
    ]
    return concatenated(parts, {"category": CATEGORIES, "buffer": list(buffers.names)})


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
class _ClassMemory:
    program: Program
    stage: int
    device: Device
    timing: ClassTiming
    times: Mapping[int, InstructionTimes]
    buffers: Vocabulary
    parts: list[tuple[Ints, Ints, Ints, Ints, Ints]] = field(default_factory=list)
    pending: defaultdict[tuple[str, int, int], list[tuple[int, Slot]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    opening: defaultdict[tuple[str, int, int], list[tuple[int, Slot]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def table(self, index: int) -> Table:
        self._residents()
        for code, found in self.times.items():
            self._code(self.program.codes[code], found)
        self._settle()
        time, category, size, buffer, micro_batch = (
            np.concatenate(column) for column in zip(*self.parts, strict=True)
        )
        order = np.lexsort((buffer, size > 0, time))
        return Table(
            {
                "time": time[order],
                "class": np.full(len(time), index, dtype=np.int32),
                "category": category[order].astype(np.int8),
                "bytes": size[order],
                "buffer": buffer[order].astype(np.int32),
                "micro_batch": micro_batch[order].astype(np.int32),
            }
        )

    def _residents(self) -> None:
        """What is held from the start: parameters, gradients, states, and what the runtime takes."""
        held = [
            (each.name, each.category, each.num_bytes)
            for each in self.program.stages[self.stage].residents
            if each.num_bytes
        ]
        held.append(("runtime", Category.RUNTIME, self.device.reserved))
        meetings = {
            each.group or self.program.stage_axis
            for code in self.times
            for each in self.program.codes[code].instructions
            if each.operation
        }
        held.append(("communicators", Category.COMMUNICATION, len(meetings) * self.device.communicator))
        zero = np.zeros(len(held), dtype=np.int64)
        kinds = np.array([CATEGORIES.index(category) for _, category, _ in held])
        names = np.array([self.buffers.number(name) for name, _, _ in held])
        self.parts.append((zero, kinds, np.array([size for _, _, size in held]), names, zero - 1))

    def _code(self, code: Code, times: InstructionTimes) -> None:
        executions = [self.timing.linked.executions[index] for index in times.executions.tolist()]
        per_step = len(self.timing.linked.executions) // self.timing.linked.steps
        labels = {
            scope: np.array([each.label(scope) for each in executions], dtype=np.int64)
            for scope in {slot.scope for slot in code.slots}
        }
        micro_batches = np.array([each.micro_batch for each in executions], dtype=np.int64)
        instances = list(dict.fromkeys(each.instance for each in executions))
        order = {instance: index for index, instance in enumerate(instances)}
        which = np.array([order[each.instance] for each in executions], dtype=np.int64)
        plan = self.program.stages[self.stage]
        makers, droppers = _makers(code), _droppers(code)
        for index, slot in enumerate(code.slots):
            if slot.scope is Scope.STEP or not slot.num_bytes:
                continue
            made = index in makers or (slot.feed and code.phase == FORWARD)
            if not made and index not in droppers:
                continue
            names = [plan.buffer(instance, slot.name) for instance in instances]
            numbers = np.array([self.buffers.number(name) for name in names], dtype=np.int64)
            batches = labels[slot.scope] if slot.scope is not Scope.LOCAL else micro_batches
            rows = _Rows(slot, names, which, numbers[which], batches, times.executions // per_step)
            if made:
                self._allocate(rows, _allocation(code, makers.get(index), times))
            if index in droppers:
                self._release(rows, times.ends[:, droppers[index]].max(axis=1), len(droppers[index]))

    def _allocate(self, rows: _Rows, when: Ints) -> None:
        """Allocates at once where this code alone writes the buffers, else when the first of all begins."""
        writers = self.program.makers[self.stage]
        if rows.slot.scope is Scope.LOCAL or all(writers.get(name, 1) == 1 for name in rows.names):
            self._add(rows, when, rows.slot.num_bytes)
            return
        columns = (rows.which, rows.micro_batches, rows.steps, when)
        for which, batch, step, start in zip(*(column.tolist() for column in columns), strict=True):
            self.opening[rows.names[which], batch, step].append((start, rows.slot))

    def _release(self, rows: _Rows, when: Ints, droppers: int) -> None:
        """Releases at once where this code holds every dropper, else when the last code's have ended."""
        references = self.program.references[self.stage]
        kept = rows.slot.scope is Scope.KEPT
        if not kept and (
            rows.slot.scope is Scope.LOCAL or all(references[name] == droppers for name in rows.names)
        ):
            self._add(rows, when, -rows.slot.num_bytes)
            return
        columns = (rows.which, rows.micro_batches, rows.steps, when)
        for which, batch, step, end in zip(*(column.tolist() for column in columns), strict=True):
            self.pending[rows.names[which], batch, step].append((end, rows.slot))

    def _settle(self) -> None:
        """Books what several codes write or drop: from the first to begin to the last to end."""
        for key, ends in self.pending.items():
            self._once(key, max(ends, key=lambda end: end[0]), -1)
        for key, starts in self.opening.items():
            self._once(key, min(starts, key=lambda start: start[0]), 1)

    def _once(self, key: tuple[str, int, int], when: tuple[int, Slot], sign: int) -> None:
        name, batch, step = key
        time, slot = when
        numbers = (0, self.buffers.number(name), batch, step)
        rows = _Rows(slot, [name], *(np.array([number], dtype=np.int64) for number in numbers))
        self._add(rows, np.array([time], dtype=np.int64), sign * slot.num_bytes)

    def _add(self, rows: _Rows, when: Ints, size: int) -> None:
        kinds = np.full(len(when), CATEGORIES.index(rows.slot.category), dtype=np.int64)
        sizes = np.full(len(when), size, dtype=np.int64)
        self.parts.append((when, kinds, sizes, rows.buffers, rows.micro_batches))


def _makers(code: Code) -> dict[int, int]:
    """Slot -> the first instruction that writes it."""
    found: dict[int, int] = {}
    for index, each in enumerate(code.instructions):
        for slot in each.writes:
            found.setdefault(slot, index)
    return found


def _droppers(code: Code) -> dict[int, list[int]]:
    """Slot -> the instructions that drop it."""
    found: dict[int, list[int]] = {}
    for index, each in enumerate(code.instructions):
        for slot in each.drops:
            found.setdefault(slot, []).append(index)
    return found


def _allocation(code: Code, maker: int | None, times: InstructionTimes) -> Ints:
    if maker is None:
        return times.starts[:, 0]
    if code.instructions[maker].in_place:
        return times.ends[:, maker]
    return times.arrivals[:, maker]
