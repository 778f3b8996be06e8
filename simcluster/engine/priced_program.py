"""What all classes that run the same, at the same prices, have in common: lists made once for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from simcluster.engine.class_program import ClassProgram
from simcluster.engine.entry_types import EntryTypes
from simcluster.engine.pace import Segment, segments_of
from simcluster.engine.timed import TimedCode
from simcluster.program import COMPUTE, Program


@dataclass(frozen=True)
class PricedProgram:
    """Priced codes, and their executions linked."""

    codes: Mapping[int, TimedCode]
    linked: ClassProgram
    _kinds: dict[int, EntryTypes] = field(default_factory=dict)

    @cached_property
    def waits(self) -> list[tuple[list[int], list[int]]]:
        """By stream what every entry waits for: the stream, and how many entries of it must have ended."""
        return [
            (stream.wait_stream.tolist(), stream.wait_position.tolist()) for stream in self.linked.streams
        ]

    @cached_property
    def durations(self) -> list[int]:
        """Nanoseconds of the entries of the compute stream."""
        return list(self.linked.streams[self.compute].duration.tolist())

    @cached_property
    def segments(self) -> list[Segment | None]:
        """The entries of the compute stream as kernels that give way to communication."""
        return segments_of(self.linked, self.codes)

    @property
    def compute(self) -> int:
        """The number of the compute stream."""
        return next(number for number, stream in enumerate(self.linked.streams) if stream.name == COMPUTE)

    def alone(self, code: int, instruction: int) -> int:
        """Nanoseconds of a collective or transfer that shares no link."""
        return int(self.codes[code].duration[instruction])

    def kinds(self, program: Program, number: int) -> EntryTypes:
        """What the entries of a communication stream do."""
        if number not in self._kinds:
            self._kinds[number] = EntryTypes.of(program, self.linked, number)
        return self._kinds[number]
