"""Who meets in a collective or transfer: the classes of a group, or sender and receiver."""

from __future__ import annotations

from simcluster.program import SENDER_OF, Instruction, InstructionKind, RankClasses, peer_is_next_stage

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
