"""Entries that wait at gates, and those that open them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.engine import ClassGates, GroupTiming
from simcluster.number_arrays import Ints
from simcluster.program import Program, RankClasses, StepGate


@dataclass(frozen=True)
class GateEntries:
    """By entry the gate at which it ``waits``, and by gate the entries that open it, rising."""

    waits: Mapping[int, StepGate]
    openers: Mapping[StepGate, Ints]

    @classmethod
    def of(
        cls, program: Program, classes: RankClasses, blocks: Sequence[tuple[int, GroupTiming]]
    ) -> GateEntries:
        """Those of the groups of a run, each with the number of its first entry."""
        waits: dict[int, StepGate] = {}
        openers: defaultdict[StepGate, list[int]] = defaultdict(list)
        for first, timing in blocks:
            for entries, column, place in _gated(program, first, timing):
                code, instruction = place
                index = timing.group.indices[column]
                gates = ClassGates.of(classes, index, program.codes[code].instructions[instruction])
                assert gates is not None
                if gates.waits is not None:
                    waits.update(dict.fromkeys(entries.tolist(), gates.waits))
                for gate, _ in gates.opens:
                    openers[gate] += entries.tolist()
        return cls(waits, {gate: np.array(sorted(opening)) for gate, opening in openers.items()})

    def opened_by(self, entry: int, ends: Ints) -> Ints:
        """The entries whose end let one go on that waited at a gate until its own end."""
        opening = self.openers.get(self.waits[entry], np.zeros(0, dtype=np.int64))
        return np.asarray(opening[ends[opening] == ends[entry]], dtype=np.int64)


def _gated(program: Program, first: int, timing: GroupTiming) -> Iterator[tuple[Ints, int, tuple[int, int]]]:
    """Entries of one kind that have to do with gates, with their column and their instruction."""
    part, width = timing.group.part, len(timing.group.indices)
    for _, entries, stream in part.communication():
        for kind, (code, place) in enumerate(stream.kinds):
            instruction = program.codes[code].instructions[place]
            if instruction.gate is None and not instruction.opens:
                continue
            rows = entries.start + np.flatnonzero(stream.kind_of == kind)
            for column in range(width):
                yield first + rows * width + column, column, (code, place)
