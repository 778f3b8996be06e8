"""How every class does its collectives and transfers: by which algorithm, with whom, how long alone."""

from __future__ import annotations

from simcluster.cluster import Cluster, GroupPlacement, HostPath
from simcluster.collectives import AlgorithmChoice, Operation, collective_time, copy_time, work_time
from simcluster.deferred_dataclass import dataclass
from simcluster.program import (
    WITH_SERVER,
    CollectiveRequests,
    Instruction,
    InstructionKind,
    RankClasses,
    peer_is_next_stage,
)


@dataclass(frozen=True, slots=True)
class Choices:
    """The choices of the classes of a Program on a cluster."""

    classes: RankClasses
    cluster: Cluster
    requests: CollectiveRequests

    def of(self, index: int, instruction: Instruction) -> AlgorithmChoice:
        """How a class's collective, transfer or copy is done, and how long it takes alone."""
        if instruction.action is InstructionKind.COPY:
            rank = self.classes.representatives[index]
            if instruction.operation == HostPath.WORK:
                return work_time(instruction.works, rank, self.cluster)
            return copy_time(
                HostPath(instruction.operation),
                rank,
                instruction.num_bytes,
                self.cluster.same_links,
                instruction.bandwidth_limit,
            )
        where = self.where(index, instruction)
        operation = Operation(instruction.operation)
        parts = instruction.parts and instruction.parts.of_number(
            self.classes.groups[index, instruction.group].number
        )
        linked, request = self.cluster.same_links, self.requests.of(instruction)
        return collective_time(operation, where, instruction.num_bytes, linked, request, parts)

    def occupied(self, index: int, instruction: Instruction) -> tuple[int, float] | None:
        """What a class's collective, transfer or copy takes of its device while it is under way.

        Millionths of the units, and bytes/s that pass the memory; None if it takes nothing. The same for all
        classes that do it from an equal place.
        """
        device = self.cluster.device(self.classes.representatives[index])
        if device.communication is None or instruction.action is InstructionKind.GATE:
            return None
        choice = self.of(index, instruction)
        if instruction.action is InstructionKind.COPY:
            # No units, and of the memory what arrives there or leaves it.
            if instruction.operation not in (HostPath.TO_DEVICE, HostPath.FROM_DEVICE) or not choice.phases:
                return None
            return 0, sum(phase.num_bytes for phase in choice.phases) / choice.transfer
        where, operation = self.where(index, instruction), Operation(instruction.operation)
        sent = operation.bus_factor(where.num_ranks) * instruction.num_bytes
        traffic = device.communication.traffic(operation, sent, choice.seconds)
        return device.communication.units(where), traffic

    def where(self, index: int, instruction: Instruction) -> GroupPlacement:
        """Where those are who meet in it."""
        if instruction.action in WITH_SERVER:
            rank = self.classes.representatives[index]
            pushes = instruction.action is InstructionKind.PUSH
            pair = (rank, instruction.server) if pushes else (instruction.server, rank)
            return self.cluster.placement(pair)
        return (
            self.classes.groups[index, instruction.group].placement
            if instruction.group
            else self.peer(index, instruction)[1]
        )

    def peer(self, index: int, instruction: Instruction) -> tuple[int, GroupPlacement]:
        """The class at the other end of a transfer, and where the pair lies."""
        classes = self.classes
        return (classes.next_stage if peer_is_next_stage(instruction.stream) else classes.prev_stage)[index]
