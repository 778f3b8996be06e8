"""Operators on the processors of hosts, as what they cost and load on links.

An operator works on cores for its rows first, which loads nothing else. Then its bytes flow from the memory
through the cores, and each of them takes some time of a core. So devices of one host share both.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from simcluster.cluster import CORE, NOMINAL, Cluster, DeviceSpeed, HostKernels, HostPath, host_path_links
from simcluster.collectives.cost.algorithm_cost import AlgorithmChoice, LoadPhase
from simcluster.collectives.cost.host_copies import host_path_rate
from simcluster.collectives.traffic import GRAIN, PhaseLoad
from simcluster.number_arrays import Ints
from simcluster.work import Kernel, Work

PROCESSOR = "cpu"
"""The kind of devices that are processors of hosts."""

ON_CORES = 0
"""The index of the phase in which only cores work; those of kernels' bytes follow."""

PHASES: tuple[Kernel | None, ...] = (None, *Kernel)
"""Whose bytes flow in a phase, by its index."""


def work_time(works: Sequence[Work], rank: int, cluster: Cluster) -> AlgorithmChoice:
    """What the kernels of an operator cost on the host of a rank, alone: one after another.

    PlanError if the host does not say how fast a kernel is.
    """
    device = int(cluster.devices_of(np.array([rank]))[0])
    place = device if cluster.mixed else device % cluster.host.num_devices
    speed, processing = _own_speed(rank, cluster), _processing(rank, cluster)
    return AlgorithmChoice(
        HostPath.WORK, "none", 0.0, _phases(tuple(works), place, processing, speed, cluster)
    )


def _own_speed(rank: int, cluster: Cluster) -> DeviceSpeed:
    """How fast the cores are that a rank works on: where its device is one of the host's processors, that is
    their speed; a changed accelerator leaves the processors beside it as they are.
    """
    return cluster.speed(rank) if cluster.device(rank).kind == PROCESSOR else NOMINAL


def _processing(rank: int, cluster: Cluster) -> HostKernels:
    return cluster.groups[int(cluster.group_of(np.array([rank]))[0])].host.processing


@lru_cache(maxsize=2**12)
def _phases(
    works: tuple[Work, ...], device: int, processing: HostKernels, speed: DeviceSpeed, cluster: Cluster
) -> tuple[LoadPhase, ...]:
    cores, _ = host_path_rate(HostPath.WORK, device, cluster)
    memory, _ = host_path_rate(HostPath.STREAM, device, cluster)
    most = min(cores, processing.threads * CORE)
    phases = []
    for work in works:
        effort = processing.effort(work)
        if effort.cores:
            phases.append(LoadPhase(effort.cores / speed.compute, most, ON_CORES))
        if effort.num_bytes:
            # In units of what it loads more: bytes of the memory, or nanoseconds of a core.
            per_byte = effort.per_byte / speed.compute
            unit = max(1.0, per_byte)
            rate = min(memory * speed.memory_bandwidth, most / per_byte)
            phases.append(LoadPhase(effort.num_bytes * unit, rate * unit, PHASES.index(work.kernel)))
    return tuple(phases)


def work_loads(phase: int, ranks: Ints, cluster: Cluster) -> PhaseLoad:
    """What a phase of work on the hosts of ``ranks`` loads, one row each."""
    devices, kernel = cluster.devices_of(ranks), PHASES[phase]
    links, _ = host_path_links(HostPath.WORK, cluster.topology, devices)
    loads = np.ones(links.shape)
    if kernel is not None:
        memory, _ = host_path_links(HostPath.STREAM, cluster.topology, devices)
        known = [(_processing(rank, cluster), _own_speed(rank, cluster)) for rank in ranks.tolist()]
        per_byte = np.array(
            [
                processor.per_byte(kernel) / speed.compute if processor.knows(kernel) else 1.0
                for processor, speed in known
            ]
        )
        loads = np.concatenate([loads * per_byte[:, None], np.ones(memory.shape)], axis=1)
        loads /= np.maximum(1.0, per_byte)[:, None]
        links = np.concatenate([links, memory], axis=1)
    order = np.argsort(links, axis=1, kind="stable")
    links, loads = np.take_along_axis(links, order, 1), np.take_along_axis(loads, order, 1)
    used = links >= 0
    offsets = np.concatenate([[0], np.cumsum(used.sum(axis=1))]).astype(np.int64)
    rounded = np.maximum(1, np.rint(loads[used] / GRAIN))
    return PhaseLoad(offsets, links[used], rounded.astype(np.int64), np.ones(len(ranks)))
