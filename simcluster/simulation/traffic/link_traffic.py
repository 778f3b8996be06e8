"""The bytes that a step puts on every link: those of the loads that the engine times."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simcluster.engine import Who, meeting_of
from simcluster.number_arrays import Floats
from simcluster.program import Instruction, InstructionKind
from simcluster.simulation.compose import BuiltScenario

_MOVES_NOTHING = (InstructionKind.COMPUTE, InstructionKind.GATE, InstructionKind.RECEIVE)
"""What puts nothing on links; a receive beside its send."""


def bytes_on_links(built: BuiltScenario) -> Floats:
    """Bytes per step on one link of each class of links of ``built.classes.flows`` [classes of links]."""
    vectors = built.fabric.links.vectors
    carried = np.zeros(len(built.classes.flows.links))
    for index, instruction, runs in meetings(built):
        transfer = built.fabric.transfer(index, instruction)
        for phase in transfer.phases if transfer else ():
            rows = slice(*vectors.offsets[phase.vector : phase.vector + 2])
            carried[vectors.links[rows]] += vectors.loads[rows] * phase.num_bytes * runs
    return carried


def meetings(built: BuiltScenario) -> Iterator[tuple[int, Instruction, int]]:
    """Every collective, send, copy, push and pull of a step: a class that meets in it, the instruction, and
    how often a step runs it. Each is told once, whoever meets; receives are those of their sends.
    """
    told_by: dict[Who, int] = {}
    placed = built.placed
    for index, part in enumerate(placed.parts):
        for code, runs in placed.program.parts[part].columns.times().items():
            for instruction in placed.program.codes[code].instructions:
                if instruction.action in _MOVES_NOTHING:
                    continue
                who, _ = meeting_of(placed.classes, index, instruction)
                if told_by.setdefault(who, index) == index:
                    yield index, instruction, runs
