"""What a movement costs on the nominal cluster for the worst group of its axes: one choice for all."""

from __future__ import annotations

from simcluster.cluster import Cluster, placements_of
from simcluster.collectives import AUTOMATIC, Operation, Selection, collective_time
from simcluster.layout import Mesh, Movement
from simcluster.plan.redistribute import Cost
from simcluster.work import DType, Kernel, Work


def movement_cost(cluster: Cluster, mesh: Mesh, algorithms: Selection = AUTOMATIC) -> Cost:
    """The cost function of a mesh on a cluster: seconds of a movement of so many bytes."""
    devices = [host.device for host in cluster.kinds]

    def cost(movement: Movement, num_bytes: int) -> float:
        if not movement.is_collective:
            copy = Work(Kernel.COPY, DType.UINT8, flops=0, bytes_read=num_bytes, bytes_written=num_bytes)
            return max(device.kernel_time(copy) for device in devices)
        operation = Operation(str(movement.kind))
        algorithm = algorithms.of(operation)
        return max(
            collective_time(operation, where, num_bytes, cluster, algorithm).seconds
            for where in placements_of(cluster, mesh, movement.axes)[0]
        )

    return cost
