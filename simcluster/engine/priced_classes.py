"""What every class of one Program does: its linked entries, and who meets in them to move what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simcluster.cluster import ResourceShare
from simcluster.engine.class_meetings import Who, meeting_of
from simcluster.engine.deadlock import stuck
from simcluster.engine.entry_types import EntryTypes
from simcluster.engine.fabric import Moves
from simcluster.engine.priced_program import PricedPrograms
from simcluster.engine.workload import Workload


@dataclass(frozen=True)
class PricedCommunications:
    """What a class does on a communication stream, by kind of its entries.

    ``met`` says who meets and how many they are, where there are several.
    """

    kinds: EntryTypes
    moves: list[Moves]
    takes: list[ResourceShare | None]
    met: list[tuple[Who, int] | None]


class PricedClasses:
    """The classes of a workload, priced and linked; those that differ in nothing share what they run."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self._prices = workload.prices()
        self._communications: dict[tuple[int, int], PricedCommunications] = {}
        programs = PricedPrograms(self._prices, workload.steps)
        self.programs = [programs.of(index) for index in range(len(workload.classes))]

    @property
    def num_entries(self) -> int:
        """Entries of all streams of all classes."""
        return sum(len(stream) for priced in self.programs for stream in priced.linked.streams)

    def slows(self, index: int) -> bool:
        """Whether a class's kernels and its communication share the device."""
        device = self.workload.cluster.device(self.workload.classes.representatives[index])
        return device.communication is not None and len(self.programs[index].linked.streams) > 1

    def communications(self, index: int, number: int) -> PricedCommunications:
        """What a class does on one of its communication streams."""
        if (index, number) not in self._communications:
            self._communications[index, number] = self._priced(index, number)
        return self._communications[index, number]

    def _priced(self, index: int, number: int) -> PricedCommunications:
        program, priced = self.workload.program, self.programs[index]
        kinds = priced.kinds(program, number)
        moves: list[Moves] = []
        takes: list[ResourceShare | None] = []
        met: list[tuple[Who, int] | None] = []
        for code, place in kinds.places:
            instruction = program.codes[code].instructions[place]
            transfer = self._prices.transfer(index, program.codes[code], instruction)
            moves.append(transfer or priced.alone(code, place))
            takes.append(self._prices.choices.taken(index, instruction))
            who, size = meeting_of(self.workload.classes, index, instruction)
            met.append((who, size) if size > 1 else None)
        return PricedCommunications(kinds, moves, takes, met)

    def stuck(self, done: Sequence[Sequence[int]], held: Sequence[Sequence[str | None]]) -> list[str]:
        """One line per stuck stream: what it is at and what it waits for.

        By class and stream, ``done`` entries have ended, and ``held`` keeps the next from ending if it has
        arrived.
        """
        lines = []
        for index, (priced, ended, why) in enumerate(zip(self.programs, done, held, strict=True)):
            rank = self.workload.classes.representatives[index]
            lines += stuck(self.workload.program, rank, priced.linked, ended, why)
        return lines
