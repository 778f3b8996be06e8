"""How long executions of instruction blocks take at least, whatever else a rank does.

Kernels of a rank run one after another in program order, and a collective begins when what it moves is there.
So what follows an execution begins no earlier than the longest path through its instructions says, with the
time that each of them takes alone: other work can only make it later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from itertools import pairwise

from simcluster.deferred_dataclass import dataclass
from simcluster.program import COMPUTE, BlockExecution, InstructionBlock, Program, Scope, StageProgram

LONG_AGO = -(2**62)
"""A time (ns) before everything."""

Shared = tuple[tuple[int, int], ...]
"""Slots of an execution, each with the slot of the execution behind it that is the same buffer."""


@dataclass(frozen=True, slots=True)
class Span:
    """The least time from one moment of an execution, in nanoseconds."""

    whole: int
    """To the end of its last kernel."""
    until_next: int
    """To the start of the first kernel of the execution behind it on the same rank."""
    handed_over: int
    """To the start of the first kernel of the execution behind it that reads what this one made, if that runs
    on another rank and transfers take no time."""


@dataclass(frozen=True, slots=True)
class ExecutionSpan:
    """The least times of an execution."""

    from_start: Span
    """From the start of its first kernel."""
    from_input: Span
    """From the start of its first kernel that reads what the execution before it made."""
    handed_bytes: int
    """Bytes on a rank of what the execution behind it reads of what this one made."""


@dataclass
class ExecutionSpans:
    """The spans of executions of a part of a Program; ``prices`` are nanoseconds by code and instruction."""

    program: Program
    part: StageProgram
    prices: Mapping[int, Sequence[int]]
    _known: dict[object, ExecutionSpan] = field(default_factory=dict, init=False, repr=False)

    def of(self, executions: Sequence[BlockExecution]) -> list[ExecutionSpan]:
        """The spans of executions that follow each other; the last one is followed by nothing."""
        buffers = [self._buffers(execution) for execution in executions]
        shared = [_shared(own, following) for own, following in pairwise(buffers)]
        spans = []
        for place, execution in enumerate(executions):
            before = shared[place - 1] if place else ()
            behind = shared[place] if place < len(shared) else ()
            next_code = executions[place + 1].code if place < len(shared) else None
            key = execution.code, next_code, before, behind
            if key not in self._known:
                self._known[key] = self._span(execution.code, next_code, before, behind)
            spans.append(self._known[key])
        return spans

    def _buffers(self, execution: BlockExecution) -> Mapping[int, str]:
        """Buffers of the execution's micro-batch: only these are handed from one execution to the next."""
        return {
            index: self.part.buffer(execution.instance, slot.name)
            for index, slot in enumerate(self.program.codes[execution.code].slots)
            if slot.scope is Scope.MICRO_BATCH
        }

    def _span(self, code: int, next_code: int | None, before: Shared, behind: Shared) -> ExecutionSpan:
        block = self.program.codes[code]
        first = _first_reader(block, {there for _, there in before})
        made = {here for here, _ in behind if here in block.written}
        begin = _first_kernel(block)
        from_start = self._from(code, begin, next_code, behind)
        return ExecutionSpan(
            from_start,
            from_start if first == begin else self._from(code, first, next_code, behind),
            sum(block.slots[slot].num_bytes for slot in made),
        )

    def _from(self, code: int, begin: int | None, next_code: int | None, behind: Shared) -> Span:
        """Spans from the start of a kernel (by index), with all instructions before it over long ago."""
        if begin is None:
            return Span(0, 0, 0)
        own = _Path(self.program.codes[code], self.prices[code])
        own.run(begin)
        whole = own.streams[COMPUTE]
        if next_code is None:
            return Span(whole, whole, whole)
        block, prices = self.program.codes[next_code], self.prices[next_code]
        ready = {there: own.written[here] for here, there in behind if own.written.get(here, LONG_AGO) >= 0}
        here = _Path(block, prices, dict(own.streams), dict(ready))
        elsewhere = _Path(block, prices, {}, dict(ready))
        reader = _first_reader(block, set(ready))
        handed = elsewhere.run()[reader] if reader is not None else 0
        first = _first_kernel(block)
        starts = here.run()
        return Span(whole, whole if first is None else starts[first], max(0, handed))


@dataclass
class _Path:
    """The longest path through a block; times are in nanoseconds."""

    block: InstructionBlock
    prices: Sequence[int]
    streams: dict[str, int] = field(default_factory=dict)
    """When a stream is free; LONG_AGO where it is not said."""
    written: dict[int, int] = field(default_factory=dict)
    """Slot -> when it has been written; LONG_AGO where it is not said."""

    def run(self, begin: int | None = None) -> list[int]:
        """When every instruction starts; if ``begin`` is said, that one at 0 and those before it LONG_AGO."""
        starts: list[int] = []
        ends: list[int] = []
        for index, (instruction, price) in enumerate(zip(self.block.instructions, self.prices, strict=True)):
            start = max(
                self.streams.get(instruction.stream, LONG_AGO),
                max((ends[other] for other in instruction.after), default=LONG_AGO),
                max((self.written.get(slot, LONG_AGO) for slot in instruction.reads), default=LONG_AGO),
            )
            if begin is not None and index <= begin:
                start = 0 if index == begin else LONG_AGO
            starts.append(start)
            ends.append(start + price)
            self.streams[instruction.stream] = ends[-1]
            for slot in instruction.writes:
                before = self.written.get(slot, LONG_AGO) if slot in instruction.adds else LONG_AGO
                self.written[slot] = max(ends[-1], before)
        return starts


def _shared(own: Mapping[int, str], following: Mapping[int, str]) -> Shared:
    names = {name: slot for slot, name in own.items()}
    return tuple((names[name], slot) for slot, name in following.items() if name in names)


def _first_kernel(block: InstructionBlock) -> int | None:
    return next(
        (index for index, instruction in enumerate(block.instructions) if instruction.stream == COMPUTE), None
    )


def _first_reader(block: InstructionBlock, slots: set[int]) -> int | None:
    """The first kernel that needs any of some slots, itself or by what was made of it; the first kernel where
    none of them is read.
    """
    needed = set(slots)
    reached: set[int] = set()
    for index, instruction in enumerate(block.instructions):
        if needed & set(instruction.reads) or reached & set(instruction.after):
            if instruction.stream == COMPUTE:
                return index
            reached.add(index)
            needed.update(instruction.writes)
    return _first_kernel(block)
