"""What every class of one Program does: its linked entries, and who meets in them to move what."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from simcluster.cluster import SCALE, Device, ResourceShare
from simcluster.engine.communication import ClassGates, Transfer, Who, meeting_of
from simcluster.engine.linking import LinkedPart, TimedCode, link_part, stuck
from simcluster.engine.pricing.device_prices import DevicePrices, examples_of
from simcluster.engine.pricing.priced_groups import EqualClasses, ManyClasses, PricedGroup
from simcluster.engine.pricing.priced_program import PricedProgram
from simcluster.engine.pricing.prices import Prices
from simcluster.engine.pricing.workload import Workload
from simcluster.program import Instruction

Ints = NDArray[np.int64]

MANY_CLASSES = 8
"""Classes of a part from which on they are priced, and looked at, in arrays."""


@dataclass(frozen=True)
class Communication:
    """One kind of collective, transfer or copy of the classes of a group, which are the columns.

    ``met`` says who meets in it, and how many they are. Every class puts the ``transfers`` of its number in
    ``which`` on links, or takes so many nanoseconds, ``times``, where these are None. ``units`` and
    ``memory`` are what it takes of each device, in millionths; None: nothing. ``gates`` are by class those
    that it waits for and counts up; None: it has to do with none.
    """

    met: Sequence[tuple[Who, int]]
    transfers: Sequence[Transfer | None]
    which: Ints
    times: Ints
    units: Ints | None
    memory: Ints | None
    gates: Sequence[ClassGates | None] | None = None

    def moves(self, column: int) -> Transfer | int:
        """What a class moves, or how long it takes."""
        return self.transfers[self.which[column]] or int(self.times[column])

    def taken(self, column: int) -> ResourceShare | None:
        """What it takes of its device."""
        if self.units is None or self.memory is None:
            return None
        return ResourceShare(int(self.units[column]), int(self.memory[column]))


class PricedClasses:
    """The classes of a workload, priced and linked; those that differ in nothing share what they run."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self._prices = workload.prices()
        self._communications: dict[tuple[int, int], list[Communication]] = {}
        self._met: dict[tuple[object, ...], tuple[Sequence[tuple[Who, int]], list[int], Ints]] = {}
        self._moved: dict[tuple[object, ...], tuple[list[int], Ints]] = {}
        self.groups: Sequence[PricedGroup] = list(_Grouping(self._prices, workload).groups())
        self.place_of: Mapping[int, tuple[int, int]] = {
            index: (number, column)
            for number, group in enumerate(self.groups)
            for column, index in enumerate(group.indices)
        }

    @cached_property
    def num_entries(self) -> int:
        """Entries of all streams of all classes."""
        return sum(group.part.num_entries * len(group.indices) for group in self.groups)

    @property
    def many(self) -> bool:
        """Whether there are many classes beside each other."""
        return any(isinstance(group, ManyClasses) for group in self.groups)

    def slows(self, group: PricedGroup) -> bool:
        """Whether the kernels of these classes and their communication share the device."""
        return (
            self._device(group.indices[0]).communication is not None and len(group.part.untimed.streams) > 1
        )

    def communications(self, group: int, number: int) -> Sequence[Communication]:
        """What the classes of a group do on one of their communication streams."""
        if (group, number) not in self._communications:
            kinds = self.groups[group].part.kinds(number)
            self._communications[group, number] = [self._priced(group, *place) for place in kinds.places]
        return self._communications[group, number]

    def _priced(self, number: int, code: int, place: int) -> Communication:
        group, block = self.groups[number], self.workload.program.codes[code]
        instruction = block.instructions[place]
        met, examples, which = self._meetings(number, instruction)
        transfers = [self._prices.transfer(group.indices[first], block, instruction) for first in examples]
        shares = self._taken(number, instruction) if self.slows(group) else (None, None)
        gates = [ClassGates.of(self.workload.classes, index, instruction) for index in group.indices]
        return Communication(
            met, transfers, which, group.durations(code, place), *shares, gates if any(gates) else None
        )

    def _taken(self, number: int, instruction: Instruction) -> tuple[Ints, Ints] | tuple[None, None]:
        """What it takes of every device: units and memory, in millionths; None if nothing."""
        group, choices = self.groups[number], self._prices.choices
        examples, which = self._ways(number, instruction)
        occupied = [choices.occupied(group.indices[first], instruction) for first in examples]
        taking = [share for share in occupied if share is not None]
        if not taking:
            return None, None
        assert len(taking) == len(occupied)
        units, passing = (np.array(column)[which] for column in zip(*taking, strict=True))
        bandwidth = np.array([self._device(index).memory_bandwidth for index in group.indices])
        return units, np.rint(np.minimum(1.0, passing / bandwidth) * SCALE).astype(np.int64)

    def _meetings(
        self, number: int, instruction: Instruction
    ) -> tuple[Sequence[tuple[Who, int]], list[int], Ints]:
        """Who meets in it, by class; one class of each of those, and which of these every class is like."""
        key = number, instruction.action, instruction.stream, instruction.group, instruction.parts is None
        if key not in self._met:
            indices = self.groups[number].indices
            met = [meeting_of(self.workload.classes, index, instruction) for index in indices]
            self._met[key] = met, *examples_of([who for who, _ in met])
        return self._met[key]

    def _ways(self, number: int, instruction: Instruction) -> tuple[list[int], Ints]:
        """One class of each place from which it moves something, and which of them every class is like."""
        key = number, instruction.action, instruction.stream, instruction.group, instruction.parts is None
        if key not in self._moved:
            indices = self.groups[number].indices
            self._moved[key] = examples_of([self._prices.way(index, instruction) for index in indices])
        return self._moved[key]

    def _device(self, index: int) -> Device:
        return self.workload.cluster.device(self.workload.classes.representatives[index])

    def stuck(self, done: Sequence[Sequence[int]], held: Sequence[Sequence[str | None]]) -> list[str]:
        """One line per stuck stream: what it is at and what it waits for.

        By class and stream, ``done`` entries have ended, and ``held`` keeps the next from ending if it has
        arrived.
        """
        lines = []
        for index, (ended, why) in enumerate(zip(done, held, strict=True)):
            rank = self.workload.classes.representatives[index]
            linked = self.groups[self.place_of[index][0]].part.untimed
            lines += stuck(self.workload.program, rank, linked, ended, why)
        return lines


@dataclass
class _Grouping:
    """Puts classes together that run one part; equal prices make one program of them."""

    prices: Prices
    workload: Workload
    parts: dict[int, LinkedPart] = field(default_factory=dict)
    by_place: dict[tuple[object, ...], TimedCode] = field(default_factory=dict)
    by_price: dict[tuple[object, ...], TimedCode] = field(default_factory=dict)

    def groups(self) -> Iterator[PricedGroup]:
        """All of them."""
        members: defaultdict[int, list[int]] = defaultdict(list)
        for index, rank in enumerate(self.prices.classes.representatives):
            members[self.prices.program.part_of(rank)].append(index)
        for part, indices in members.items():
            used = sorted(self.prices.program.parts[part].columns.times())
            if len(indices) < MANY_CLASSES or self.prices.cluster.mixed:
                yield from self._equal(part, used, indices)
            else:
                yield self._many(part, used, indices)

    def _device(self, index: int) -> Device:
        return self.prices.cluster.device(self.prices.classes.representatives[index])

    def _linked(self, part: int, codes: Mapping[int, TimedCode]) -> LinkedPart:
        if part not in self.parts:
            self.parts[part] = link_part(self.prices.program, part, codes, self.workload.steps)
        return self.parts[part]

    def _many(self, part: int, used: Sequence[int], indices: Sequence[int]) -> ManyClasses:
        devices = DevicePrices.of(self.prices, indices)
        codes = {code: devices.of_code(self.prices.program.codes[code]) for code in used}
        first = {code: self.prices.with_prices(code, priced.of(0)) for code, priced in codes.items()}
        return ManyClasses(self._linked(part, first), indices, self.prices, codes)

    def _equal(self, part: int, used: Sequence[int], indices: Sequence[int]) -> Iterator[EqualClasses]:
        equal: dict[tuple[object, ...], tuple[PricedProgram, list[int]]] = {}
        for index in indices:
            codes = {code: self._timed(index, code) for code in used}
            key = self._device(index), *map(id, codes.values())
            if key not in equal:
                equal[key] = PricedProgram(codes, self._linked(part, codes)), []
            equal[key][1].append(index)
        for program, alike in equal.values():
            yield EqualClasses(program.part, alike, program)

    def _timed(self, index: int, code: int) -> TimedCode:
        """A code, priced for a class; one object for all to whom it costs the same."""
        place = code, *self.prices.place(index, code)
        if place not in self.by_place:
            prices = tuple(self.prices.of_code(index, self.prices.program.codes[code]))
            if (code, prices) not in self.by_price:
                self.by_price[code, prices] = self.prices.with_prices(code, prices)
            self.by_place[place] = self.by_price[code, prices]
        return self.by_place[place]
