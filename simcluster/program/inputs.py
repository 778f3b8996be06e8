"""The input pipeline in the Program: what brings every micro-batch to a device before it is read.

A device holds the micro-batch it works on and the next one; the host has so many more decoded as the plan
says. What is prepared at the end of a step is for the beginning of the next: a run begins in the middle of a
long one, and its step is what a long one's is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from simcluster.cluster import Way
from simcluster.layout import Layout
from simcluster.model import TensorType
from simcluster.plan.inputs import Inputs
from simcluster.program.instruction import (
    COMPUTE,
    INPUT,
    Action,
    Category,
    Code,
    Execution,
    Instruction,
)
from simcluster.program.lower import FORWARD
from simcluster.program.program import Resident
from simcluster.work import DType

READ, DECODE, TO_DEVICE = f"{INPUT} (read)", f"{INPUT} (decode)", f"{INPUT} (copy)"
"""The streams of the input pipeline."""


@dataclass(frozen=True, slots=True)
class Fed:
    """What a rank needs of each micro-batch: bytes on the device, and samples, parts of them counted so."""

    num_bytes: int
    samples: float

    @classmethod
    def of(cls, codes: Sequence[Code]) -> Fed:
        """What the feeds of some codes need."""
        feeds = {slot.name: slot for code in codes for slot in code.slots if slot.feed}
        parts = [
            slot.whole.shape[0] * slot.type.num_elements / slot.whole.num_elements for slot in feeds.values()
        ]
        return cls(sum(slot.type.num_bytes for slot in feeds.values()), max(parts, default=0.0))


def input_codes(inputs: Inputs, fed: Fed) -> tuple[Code | None, Code]:
    """What prepares a micro-batch on the host, if anything does, and what copies it to the device."""
    prepares = []
    if inputs.way is not None:
        size = fed.num_bytes if inputs.sample is None else round(inputs.sample * fed.samples)
        prepares.append(_copy("read", READ, inputs.way, size))
    if inputs.decode:
        work = round(inputs.decode * 1e9 * fed.samples)
        decode = replace(_copy("decode", DECODE, Way.DECODE, work), at_most=inputs.decoding)
        prepares.append(replace(decode, after=tuple(range(len(prepares)))))
    prepared = Code("input.prepare", INPUT, tuple(prepares), ()) if prepares else None
    copied = _copy("copy", TO_DEVICE, Way.TO_DEVICE, fed.num_bytes)
    return prepared, Code("input.copy", INPUT, (copied,), ())


def _copy(name: str, stream: str, way: Way, size: int) -> Instruction:
    why = f"micro-batches come over {way}" if way is not Way.DECODE else "samples are decoded on the host"
    return Instruction(
        name, Action.COPY, stream, (), operation=str(way), group=(str(way),), num_bytes=size, why=why
    )


def input_buffer(fed: Fed) -> Resident:
    """What the next micro-batch lies in on the device."""
    nothing = TensorType((0,), DType.UINT8)
    return Resident("input buffer", Category.ACTIVATIONS, fed.num_bytes, nothing, Layout.replicated(1))


def with_inputs(
    executions: Sequence[Execution],
    codes: Sequence[Code],
    prefetch: int,
    numbers: tuple[int | None, int],
) -> list[Execution]:
    """The executions of a part with those of its input pipeline; ``numbers`` are those of its codes."""
    return _Fed(executions, codes, prefetch, *numbers).run()


@dataclass
class _Fed:
    executions: Sequence[Execution]
    codes: Sequence[Code]
    prefetch: int
    prepare: int | None
    copy: int

    def run(self) -> list[Execution]:
        readers = list(self._readers())
        self.first = [places[0] for places in readers]
        each = 1 if self.prepare is None else 2
        shift = [0] * len(self.executions)
        for place in self.first:
            for later in range(place, len(shift)):
                shift[later] += each
        self.place = [place + moved for place, moved in enumerate(shift)]
        made: list[Execution] = []
        awaited = {place: turn for turn, places in enumerate(readers) for place in places}
        for place, execution in enumerate(self.executions):
            if place in self.first:
                made += self._ahead(self.first.index(place))
            after = tuple((self.place[earlier], ago) for earlier, ago in execution.after)
            if place in awaited:
                after = (*after, self._copied(awaited[place]))
            made.append(replace(execution, after=after))
        return made

    def _readers(self) -> Iterator[list[int]]:
        """By turn of the micro-batches: the places of the executions that read its feeds."""
        turns: dict[int, list[int]] = {}
        for place, execution in enumerate(self.executions):
            code = self.codes[execution.code]
            if code.phase == FORWARD and any(slot.feed for slot in code.slots):
                turns.setdefault(execution.micro_batch, []).append(place)
        yield from turns.values()

    def _ahead(self, turn: int) -> Iterator[Execution]:
        """What happens when the micro-batch of a turn is about to be worked on: the next one is copied, and
        one more is prepared as soon as that has made room.
        """
        count = len(self.first)
        batch = self._batch((turn + 1) % count)
        free = next(
            (
                (self.place[place], 0)
                for place in range(self.first[turn] - 1, -1, -1)
                if COMPUTE in self.codes[self.executions[place].code].streams
            ),
            None,
        )
        if free is None:
            last = max(
                place
                for place, execution in enumerate(self.executions)
                if COMPUTE in self.codes[execution.code].streams
            )
            free = self.place[last], 1
        ready = () if self.prepare is None else (self._prepared(turn + 1),)
        yield Execution(self.copy, "input", batch, INPUT, after=(free, *ready))
        if self.prepare is not None:
            later = self._batch((turn + 1 + self.prefetch) % count)
            yield Execution(self.prepare, "input", later, INPUT, after=(self._copied(turn + 1),))

    def _batch(self, turn: int) -> int:
        return self.executions[self.first[turn]].micro_batch

    def _copied(self, turn: int) -> tuple[int, int]:
        """Where the micro-batch of a turn is copied: when the one before it is about to be worked on."""
        ago, before = divmod(turn - 1, len(self.first))
        each = 1 if self.prepare is None else 2
        return self.place[self.first[before]] - each, -ago

    def _prepared(self, turn: int) -> tuple[int, int]:
        """Where it is prepared: when ``prefetch`` more are to be worked on before it is copied."""
        ago, before = divmod(turn - 1 - self.prefetch, len(self.first))
        return self.place[self.first[before]] - 1, -ago
