"""How every class does its collectives and transfers: by which algorithm, with whom, how long alone."""

from __future__ import annotations

from dataclasses import dataclass

from simcluster.cluster import Cluster, Placement
from simcluster.cluster.communication import Taken
from simcluster.collectives import Choice, Operation, collective_time
from simcluster.program import Classes, Instruction
from simcluster.program.instruction import RECV_NEXT, SEND_NEXT
from simcluster.program.wanted import Wants


@dataclass(frozen=True, slots=True)
class Choices:
    """The choices of the classes of a Program on a cluster."""

    classes: Classes
    cluster: Cluster
    wants: Wants

    def of(self, index: int, each: Instruction) -> Choice:
        """How a class's collective or transfer is done, and how long it takes alone."""
        where = self.where(index, each)
        operation = Operation(each.operation)
        return collective_time(operation, where, each.num_bytes, self.cluster, self.wants.of(each))

    def taken(self, index: int, each: Instruction) -> Taken | None:
        """What a class's collective or transfer takes of its device while it is under way."""
        device = self.cluster.device(self.classes.representatives[index])
        if device.communication is None:
            return None
        sent, seconds = self._sent(index, each)
        where, operation = self.where(index, each), Operation(each.operation)
        return device.communication.taken(operation, where, sent, seconds, device.memory_bandwidth)

    def held(self, index: int, each: Instruction) -> tuple[int, float]:
        """The millionths of the units that it holds, and the bytes/s that pass the memory: the same for all
        classes that do it from an equal place.
        """
        found = self.cluster.device(self.classes.representatives[index]).communication
        assert found is not None
        traffic = found.traffic(Operation(each.operation), *self._sent(index, each))
        return found.units(self.where(index, each)), traffic

    def _sent(self, index: int, each: Instruction) -> tuple[float, float]:
        """Bytes that a rank sends, and seconds."""
        sent = Operation(each.operation).bus_factor(self.where(index, each).num_ranks) * each.num_bytes
        return sent, self.of(index, each).seconds

    def where(self, index: int, each: Instruction) -> Placement:
        """Where those are who meet in it."""
        return self.classes.groups[index, each.group].placement if each.group else self.peer(index, each)[1]

    def peer(self, index: int, each: Instruction) -> tuple[int, Placement]:
        """The class at the other end of a transfer, and where the pair lies."""
        forward = each.stream in (SEND_NEXT, RECV_NEXT)
        return (self.classes.next_stage if forward else self.classes.prev_stage)[index]
