"""Cost of movements and kernels on the nominal cluster, for the slowest group: one choice for all groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from simcluster.cluster import Cluster, placements_of
from simcluster.collectives import AUTOMATIC, Operation, Selection, collective_time
from simcluster.layout import Mesh, Movement
from simcluster.plan.redistribution.redistribution_planner import MovementCost
from simcluster.work import DType, Kernel, Work


def movement_cost(cluster: Cluster, mesh: Mesh, algorithms: Selection = AUTOMATIC) -> MovementCost:
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


def kernel_cost(cluster: Cluster) -> Callable[[Sequence[Work]], float]:
    """The cost function of kernels: seconds on the slowest kind of device."""
    devices = [host.device for host in cluster.kinds]

    def cost(works: Sequence[Work]) -> float:
        return max(sum(device.kernel_time(work) for work in works) for device in devices)

    return cost
