"""What every class of one Program does: its linked entries, and who meets in them to move what."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from simcluster.cluster import SCALE, Device, ResourceShare
from simcluster.deferred_dataclass import dataclass
from simcluster.engine.communication import ClassGates, Transfer, Who, meeting_of
from simcluster.engine.linking import CodeEntries, LinkedPart, link_part
from simcluster.engine.pricing.prices import PricedCode, PricedGroup, Prices, examples_of
from simcluster.engine.pricing.workload import Workload
from simcluster.number_arrays import Ints
from simcluster.program import Instruction

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

    def of_gates(self, column: int) -> ClassGates | None:
        """The gates of a class; None if it has to do with none."""
        return self.gates[column] if self.gates else None


class _Partners(NamedTuple):
    """By class of a kind of communication: who meets, and how many they are; one class of each of those who
    meet, and of each place from which something moves, and which of these it is like; memory's bytes/s.
    """

    met: Sequence[tuple[Who, int]]
    groups: tuple[Sequence[int], Ints]
    places: tuple[Sequence[int], Ints]


class PricedClasses:
    """The classes of a workload, priced and linked; those that differ in nothing share what they run."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self._prices = Prices(workload)
        self._communications: dict[tuple[int, int], list[Communication]] = {}
        self._partners: dict[tuple[object, ...], _Partners] = {}
        self.groups: Sequence[PricedGroup] = list(_Grouping(self._prices, workload.steps).groups())
        places = {
            index: (number, column)
            for number, group in enumerate(self.groups)
            for column, index in enumerate(group.indices)
        }
        self.place_of: Sequence[tuple[int, int]] = [place for _, place in sorted(places.items())]

    @cached_property
    def num_entries(self) -> int:
        """Entries of all streams of all classes."""
        return sum(group.part.num_entries * len(group.indices) for group in self.groups)

    @property
    def many(self) -> bool:
        """Whether there are many classes beside each other."""
        return any(group.many for group in self.groups)

    def slows(self, group: PricedGroup) -> bool:
        """Whether the kernels of these classes and their communication share the device."""
        device = self._prices.devices[group.indices[0]]
        return device.communication is not None and len(group.part.streams) > 1

    def communications(self, group: int, number: int) -> Sequence[Communication]:
        """What the classes of a group do on one of their communication streams."""
        if (group, number) not in self._communications:
            kinds = self.groups[group].part.streams[number].kinds
            self._communications[group, number] = [self._priced(group, *place) for place in kinds]
        return self._communications[group, number]

    def _priced(self, number: int, code: int, place: int) -> Communication:
        group, block = self.groups[number], self.workload.program.codes[code]
        instruction = block.instructions[place]
        partners = self._partners_of(number, instruction)
        examples, which = partners.groups
        transfers = [self._prices.transfer(group.indices[first], block, instruction) for first in examples]
        units, memory = self._taken(group, instruction, partners) if self.slows(group) else (None, None)
        gates = [ClassGates.of(self.workload.classes, index, instruction) for index in group.indices]
        times = group.durations(code, place)
        waits = gates if any(gates) else None
        return Communication(partners.met, transfers, which, times, units, memory, waits)

    def _taken(
        self, group: PricedGroup, instruction: Instruction, partners: _Partners
    ) -> tuple[Ints, Ints] | tuple[None, None]:
        """What it takes of every device: units and memory, in millionths; None if nothing."""
        examples, which = partners.places
        choices, indices = self._prices.choices, group.indices
        occupied = [choices.occupied(indices[first], instruction) for first in examples]
        taking = [share for share in occupied if share is not None]
        if not taking:
            return None, None
        assert len(taking) == len(occupied)
        memory = [self._prices.devices[index].memory_bandwidth for index in indices]
        units, passing = (np.array(column)[which] for column in zip(*taking, strict=True))
        return units, np.rint(np.minimum(1.0, passing / memory) * SCALE).astype(np.int64)

    def _partners_of(self, number: int, instruction: Instruction) -> _Partners:
        """With whom and from where the classes of a group do it."""
        key = number, instruction.action, instruction.stream, instruction.group, instruction.parts is None
        if key not in self._partners:
            indices = self.groups[number].indices
            met = [meeting_of(self.workload.classes, index, instruction) for index in indices]
            ways = [self._prices.way(index, instruction) for index in indices]
            examples = examples_of([who for who, _ in met]), examples_of(ways)
            self._partners[key] = _Partners(met, *examples)
        return self._partners[key]


@dataclass
class _Grouping:
    """Puts classes together that run one part; those with equal prices are one group if there are few."""

    prices: Prices
    steps: int
    entries: dict[int, CodeEntries] = field(default_factory=dict)
    by_place: dict[tuple[object, ...], PricedCode] = field(default_factory=dict)
    by_price: dict[tuple[object, ...], PricedCode] = field(default_factory=dict)

    def groups(self) -> Iterator[PricedGroup]:
        """All of them."""
        members: defaultdict[int, list[int]] = defaultdict(list)
        for index, rank in enumerate(self.prices.classes.representatives):
            members[self.prices.program.part_of(rank)].append(index)
        for number, indices in members.items():
            part = self._linked(number)
            if len(indices) < MANY_CLASSES or self.prices.cluster.mixed:
                yield from self._equal(part, indices)
            else:
                yield self._many(part, indices)

    def _linked(self, number: int) -> LinkedPart:
        program = self.prices.program
        used = sorted(program.parts[number].columns.times())
        self.entries |= {
            code: CodeEntries.of(program.codes[code]) for code in used if code not in self.entries
        }
        return link_part(program, number, {code: self.entries[code] for code in used}, self.steps)

    def _many(self, part: LinkedPart, indices: Sequence[int]) -> PricedGroup:
        ranks = [self.prices.classes.representatives[index] for index in indices]
        devices = self.prices.cluster.fleet(ranks)
        blocks = self.prices.program.codes
        codes = {code: self.prices.of_classes(indices, devices, blocks[code]) for code in part.codes}
        return PricedGroup(part, indices, codes, many=True)

    def _equal(self, part: LinkedPart, indices: Sequence[int]) -> Iterator[PricedGroup]:
        equal: defaultdict[tuple[Device, tuple[PricedCode, ...]], list[int]] = defaultdict(list)
        for index in indices:
            codes = tuple(self._priced(index, code) for code in part.codes)
            equal[self.prices.devices[index], codes].append(index)
        for (_, codes), alike in equal.items():
            yield PricedGroup(part, alike, dict(zip(part.codes, codes, strict=True)), many=False)

    def _priced(self, index: int, code: int) -> PricedCode:
        """What a code costs a class; one object for all to whom it costs the same."""
        place = code, *self.prices.place(index, code)
        if place not in self.by_place:
            prices = self.prices.of_class(index, self.prices.program.codes[code])
            made = PricedCode(*np.array(prices, dtype=np.int64).T[:, :, np.newaxis])
            self.by_place[place] = self.by_price.setdefault((code, *prices), made)
        return self.by_place[place]
