"""What all classes that run the same, at the same prices, have in common: lists made once for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from simcluster.engine.class_program import ClassProgram, LinkedPart
from simcluster.engine.entry_types import EntryTypes
from simcluster.engine.linking import link_part
from simcluster.engine.pace import Segment, segments_of
from simcluster.engine.prices import Prices
from simcluster.engine.segments import Segments
from simcluster.engine.timed import TimedCode
from simcluster.program import COMPUTE, Program


@dataclass(frozen=True)
class PricedProgram:
    """Priced codes, and their executions linked."""

    codes: Mapping[int, TimedCode]
    linked: ClassProgram
    _kinds: dict[int, EntryTypes] = field(default_factory=dict, repr=False)
    """By stream; those who run the same part have the same."""

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
        return segments_of(self.segments_by_number)

    @cached_property
    def segments_by_number(self) -> Segments:
        """The same, as arrays."""
        return Segments.of(self.linked, self.codes)

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


@dataclass
class PricedPrograms:
    """The programs of classes, priced and linked for so many steps.

    A part is linked once for all classes that run it, and classes that differ in nothing that has a price
    have one program.
    """

    prices: Prices
    steps: int
    _used: dict[int, list[int]] = field(default_factory=dict, init=False, repr=False)
    _parts: dict[int, tuple[LinkedPart, dict[int, EntryTypes]]] = field(
        default_factory=dict, init=False, repr=False
    )
    _codes: dict[tuple[object, ...], TimedCode] = field(default_factory=dict, init=False, repr=False)
    _equal: dict[tuple[object, ...], TimedCode] = field(default_factory=dict, init=False, repr=False)
    _known: dict[tuple[int, ...], PricedProgram] = field(default_factory=dict, init=False, repr=False)

    def of(self, index: int) -> PricedProgram:
        """That of a class."""
        program = self.prices.program
        part = program.part_of(self.prices.classes.representatives[index])
        if part not in self._used:
            self._used[part] = sorted(program.parts[part].columns.times())
        codes = {code: self._timed(index, code) for code in self._used[part]}
        key = part, *map(id, codes.values())
        if key not in self._known:
            if part not in self._parts:
                self._parts[part] = link_part(program, part, codes, self.steps), {}
            linked, kinds = self._parts[part]
            self._known[key] = PricedProgram(codes, linked.timed(codes), kinds)
        return self._known[key]

    def _timed(self, index: int, code: int) -> TimedCode:
        """A code, priced for a class; one object for all to whom it costs the same."""
        place = code, *self.prices.place(index, code)
        if place not in self._codes:
            prices = tuple(self.prices.of_code(index, self.prices.program.codes[code]))
            if (code, prices) not in self._equal:
                self._equal[code, prices] = self.prices.with_prices(code, prices)
            self._codes[place] = self._equal[code, prices]
        return self._codes[place]
