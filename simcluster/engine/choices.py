"""How every class does its collectives and transfers: by which algorithm, with whom, how long alone."""

from __future__ import annotations

from dataclasses import dataclass

from simcluster.cluster import Cluster, Device, Placement, Way
from simcluster.cluster.communication import SCALE, Taken
from simcluster.collectives import Choice, Operation, collective_time, copy_time
from simcluster.program import Action, Classes, Instruction
from simcluster.program.instruction import RECV_NEXT, SEND_NEXT
from simcluster.program.wanted import Wants


@dataclass(frozen=True, slots=True)
class Choices:
    """The choices of the classes of a Program on a cluster."""

    classes: Classes
    cluster: Cluster
    wants: Wants

    def of(self, index: int, each: Instruction) -> Choice:
        """How a class's collective, transfer or copy is done, and how long it takes alone."""
        if each.action is Action.COPY:
            rank = self.classes.representatives[index]
            return copy_time(Way(each.operation), rank, each.num_bytes, self.cluster, each.at_most)
        where = self._where(index, each)
        operation = Operation(each.operation)
        return collective_time(operation, where, each.num_bytes, self.cluster, self.wants.of(each))

    def taken(self, index: int, each: Instruction) -> Taken | None:
        """What a class's collective or transfer takes of its device while it is under way."""
        device = self.cluster.device(self.classes.representatives[index])
        if device.communication is None:
            return None
        if each.action is Action.COPY:
            return self._copied(each, self.of(index, each), device)
        where, operation = self._where(index, each), Operation(each.operation)
        sent = operation.bus_factor(where.num_ranks) * each.num_bytes
        seconds = self.of(index, each).seconds
        return device.communication.taken(operation, where, sent, seconds, device.memory_bandwidth)

    @staticmethod
    def _copied(each: Instruction, choice: Choice, device: Device) -> Taken | None:
        """What a copy takes of its device: no units, and of its memory what arrives there."""
        if each.operation != Way.TO_DEVICE or not choice.phases:
            return None
        rate = sum(phase.num_bytes for phase in choice.phases) / choice.transfer
        return Taken(0, round(min(1.0, rate / device.memory_bandwidth) * SCALE))

    def _where(self, index: int, each: Instruction) -> Placement:
        return self.classes.groups[index, each.group].placement if each.group else self.peer(index, each)[1]

    def peer(self, index: int, each: Instruction) -> tuple[int, Placement]:
        """The class at the other end of a transfer, and where the pair lies."""
        forward = each.stream in (SEND_NEXT, RECV_NEXT)
        return (self.classes.next_stage if forward else self.classes.prev_stage)[index]
