"""Whom a class waits for in an instruction: the classes of its group, sender or receiver, or a gate."""

from __future__ import annotations

from collections.abc import Sequence

from simcluster.deferred_dataclass import dataclass
from simcluster.program import (
    OWN,
    SENDER_OF,
    Instruction,
    InstructionKind,
    RankClasses,
    StepGate,
    peer_is_next_stage,
)

Who = tuple[object, ...]
"""Who meets on a stream, again and again."""


def meeting_of(classes: RankClasses, index: int, instruction: Instruction) -> tuple[Who, int]:
    """Who meets a class in an instruction, and how many they are with it."""
    if instruction.action is InstructionKind.GATE:
        return ("gate", instruction.stream, index), 1
    if instruction.group:
        group = classes.groups[index, instruction.group]
        return ("group", instruction.stream, group.id), len(group.members)
    peers = classes.next_stage if peer_is_next_stage(instruction.stream) else classes.prev_stage
    peer, _ = peers[index]
    sends = instruction.action is InstructionKind.SEND
    stream = instruction.stream if sends else SENDER_OF[instruction.stream]
    return ("transfer", stream, *((index, peer) if sends else (peer, index))), 2


@dataclass(frozen=True, slots=True)
class ClassGates:
    """The gate that a class waits at in an instruction, with the count and the steps ago (no gate: None), and
    those that it counts up when it is over, each with the number of ranks that it stands for.
    """

    waits: StepGate | None
    count: int
    steps_ago: int
    opens: Sequence[tuple[StepGate, int]]

    @classmethod
    def of(cls, classes: RankClasses, index: int, instruction: Instruction) -> ClassGates | None:
        """Those of an instruction of a class; None if there are none."""
        wait = instruction.gate
        if wait is None and not instruction.opens:
            return None
        rank, size = classes.representatives[index], classes.sizes[index]
        opens = tuple((_resolved(gate, rank), size) for gate in instruction.opens)
        if wait is None:
            return cls(None, 0, 0, opens)
        return cls(_resolved(wait.gate, rank), wait.count, wait.steps_ago, opens)


def _resolved(gate: StepGate, rank: int) -> StepGate:
    """The gate as the engine knows it: that of a rank, if it is its own."""
    return StepGate(gate.name, rank) if gate.rank == OWN else gate
