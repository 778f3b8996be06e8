"""What ranks do to save and to load: bytes step by step, and the time that files and requests take."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simcluster.cluster import Cluster, HostPath
from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError
from simcluster.job import (
    CheckpointContent,
    CheckpointsSpec,
    DisksSpec,
    ObjectStoreSpec,
    ReplicasSpec,
    SharedSpec,
    SourceSlices,
)
from simcluster.layout import base_axis
from simcluster.number_arrays import Ints
from simcluster.program import BytesMoved

PATH = "job.checkpoints"


@dataclass(frozen=True, eq=False)
class SaveSteps:
    """What saving takes: ``gather`` and ``staged`` hold training up, ``written`` may be done beside it.

    ``files`` [ranks] are those that every rank writes, ``opened`` the seconds that opening them, or asking
    for them, takes with the ``written`` bytes. ``host_bytes`` [ranks] is what is in memory of hosts besides.
    """

    gather: tuple[BytesMoved, ...]
    staged: tuple[BytesMoved, ...]
    written: tuple[BytesMoved, ...]
    files: Ints
    opened: float
    num_bytes: int
    host_bytes: Ints


@dataclass(frozen=True, eq=False)
class LoadSteps:
    """What loading takes: ``spread`` brings files to all hosts where that must be, ``read`` brings what is
    read to devices, and from these to others that hold the same; all in turn. ``files`` [ranks] are those
    that every rank opens.
    """

    spread: tuple[BytesMoved, ...]
    read: tuple[BytesMoved, ...]
    files: Ints
    opened: float
    num_bytes: int


def steps_to_save(spec: CheckpointsSpec, content: CheckpointContent, cluster: Cluster) -> SaveSteps:
    """What ranks do to save a checkpoint; PlanError where the cluster has no such storage."""
    _check_storage(spec, cluster)
    gather = tuple(_gathers(content)) if spec.merged else ()
    written, on_device = _written(spec, content)
    files = (written > 0).astype(np.int64)
    writes: tuple[BytesMoved, ...] = ()
    copies = 1
    match spec.storage:
        case DisksSpec():
            writes = (BytesMoved(HostPath.TO_DISKS, written),)
        case SharedSpec():
            writes = (BytesMoved(HostPath.TO_STORAGE, written),)
        case ObjectStoreSpec(connections=connections, connection=rate):
            writes = (BytesMoved(HostPath.TO_STORAGE, written, limit=connections * rate),)
        case ReplicasSpec(copies=number):
            # Each copy goes one host further, from the memory that has it already.
            writes = (BytesMoved(HostPath.TO_NEXT_HOST, written),) * number
            copies, files = 1 + number, np.zeros_like(files)
    return SaveSteps(
        gather,
        (BytesMoved(HostPath.FROM_DEVICE, on_device),),
        writes,
        files,
        _opening(spec, files, written),
        int(written.sum()),
        written * copies,
    )


def steps_to_load(
    spec: CheckpointsSpec, content: CheckpointContent, cluster: Cluster, source: SourceSlices | None
) -> LoadSteps:
    """What ranks do to load the checkpoint that this plan saved, or that of ``source``.

    On local disks every host must hold all files that its ranks do not find on it: they are brought there
    first, as MindSpore's ``load_distributed_checkpoint`` demands.
    """
    _check_storage(spec, cluster)
    held = content.rank_bytes
    merged = _stage_bytes(content) if spec.merged else held
    broadcast: tuple[BytesMoved, ...] = ()
    if spec.readers == "first":
        read, broadcast = content.first_bytes, tuple(_broadcasts(content))
        files, whole = (read > 0).astype(np.int64), 0
    elif source is None:
        read, files = merged, np.ones_like(held)
        whole = int(_written(spec, content)[0].sum())
    else:
        whole_files = spec.load is not None and spec.load.read == "files"
        read = source.whole_file_bytes if whole_files else source.read_bytes
        files, whole = source.num_files, int(source.source.rank_bytes.sum())
    to_device = np.minimum(content.device_bytes, read)
    spread: tuple[BytesMoved, ...] = ()
    match spec.storage:
        case DisksSpec():
            elsewhere = source is not None or spec.remove_redundancy or spec.writers == "first"
            spread = _spread(whole, cluster) if elsewhere else ()
            reads = (BytesMoved(HostPath.FROM_DISKS, read),)
        case SharedSpec():
            reads = (BytesMoved(HostPath.FROM_STORAGE, read),)
        case ObjectStoreSpec(connections=connections, connection=rate):
            reads = (BytesMoved(HostPath.FROM_STORAGE, read, limit=connections * rate),)
        case ReplicasSpec():
            if source is not None:
                raise PlanError("replicas in memory are gone when another plan starts", path=f"{PATH}.load")
            # One host is new; the others have what they need.
            one = np.arange(len(read)) < cluster.host.num_devices
            reads, files = (BytesMoved(HostPath.TO_NEXT_HOST, np.where(one, read, 0)),), np.zeros_like(files)
    return LoadSteps(
        spread,
        (*reads, BytesMoved(HostPath.TO_DEVICE, to_device), *broadcast),
        files,
        _opening(spec, files, read),
        int(read.sum()) + sum(int(step.num_bytes.sum()) for step in spread[:1]),
    )


def _check_storage(spec: CheckpointsSpec, cluster: Cluster) -> None:
    path = f"{PATH}.storage"
    match spec.storage:
        case DisksSpec():
            if not all(group.host.disk_write and group.host.disk_read for group in cluster.groups):
                raise PlanError(
                    "hosts of this cluster have no disks that say what they read and write",
                    path=path,
                    hint="write them under cluster.host.disks, or choose another kind of storage",
                )
        case SharedSpec() | ObjectStoreSpec():
            if cluster.storage is None:
                raise PlanError(
                    "the cluster has no storage that its hosts share",
                    path=path,
                    hint="write cluster.storage: {read: .., write: .., host: ..}, or kind: disks",
                )
        case ReplicasSpec(copies=copies):
            if cluster.mixed or (cluster.hosts is not None and cluster.whole is not None):
                raise PlanError("replicas need equal hosts that one run has all of", path=path)
            if copies >= cluster.num_hosts:
                raise PlanError(
                    f"{copies} copies on other hosts, but the cluster has {cluster.num_hosts} hosts in all",
                    path=f"{path}.copies",
                )


def _written(spec: CheckpointsSpec, content: CheckpointContent) -> tuple[Ints, Ints]:
    """Bytes that every rank writes, and those of them that come from its device."""
    if not spec.merged:
        once = spec.remove_redundancy
        return (
            content.once_bytes if once else content.rank_bytes,
            content.once_device_bytes if once else content.device_bytes,
        )
    whole = _stage_bytes(content)
    on_device = _stage_bytes(content, on_device=True)
    if spec.writers == "all":
        return whole, on_device
    first = np.zeros(len(whole), dtype=bool)
    first[_first_of_stages(content)] = True
    return np.where(first, whole, 0), np.where(first, on_device, 0)


def _first_of_stages(content: CheckpointContent) -> list[int]:
    return sorted({int(tensor.ranks[0]) for tensor in content.tensors})


def _stage_bytes(content: CheckpointContent, *, on_device: bool = False) -> Ints:
    """Bytes of all tensors, whole, that a rank has any part of."""
    total = np.zeros(content.mesh.num_ranks, dtype=np.int64)
    for tensors in content.groups():
        if not (on_device and tensors[0].on_host):
            total[tensors[0].ranks] += sum(tensor.num_bytes for tensor in tensors)
    return total


def _gathers(content: CheckpointContent) -> Iterator[BytesMoved]:
    """The all-gathers that make tensors whole, those over the same axes as one."""
    by_axes: dict[tuple[str, ...], Ints] = {}
    for tensors in content.groups():
        axes = tensors[0].layout.axes
        if axes and not tensors[0].on_host:
            total = by_axes.setdefault(axes, np.zeros(content.mesh.num_ranks, dtype=np.int64))
            total[tensors[0].ranks] += sum(tensor.num_bytes for tensor in tensors)
    for axes, total in by_axes.items():
        yield BytesMoved("all_gather", total, axes)


def _broadcasts(content: CheckpointContent) -> Iterator[BytesMoved]:
    """The broadcasts that bring slices to all ranks that hold them, those over the same axes as one."""
    mesh = content.mesh
    by_axes: dict[tuple[str, ...], Ints] = {}
    for tensors in content.groups():
        tensor, size = tensors[0], sum(tensor.dtype.num_bytes(1) for tensor in tensors)
        split = {*map(base_axis, tensor.layout.axes), content.stage_axis}
        axes = tuple(axis for axis in mesh.names if axis not in split and mesh.size(axis) > 1)
        if axes and not tensor.on_host:
            slices = tensor.slices(mesh)
            total = by_axes.setdefault(axes, np.zeros(mesh.num_ranks, dtype=np.int64))
            total[tensor.ranks] += slices.elements[slices.part_of_rank[tensor.ranks]] * size
    for axes, total in by_axes.items():
        yield BytesMoved("broadcast", total, axes)


def _spread(num_bytes: int, cluster: Cluster) -> tuple[BytesMoved, ...]:
    """Files that lie on some host each brought to all hosts: passed on from host to host around a ring, and
    written to disks. Every device's card carries its share.
    """
    hosts = cluster.num_hosts
    if hosts == 1:
        return ()
    if cluster.mixed:
        raise PlanError("files are passed on between equal hosts alone", path=f"{PATH}.storage")
    share = -(-num_bytes * (hosts - 1) // hosts // cluster.host.num_devices)
    every = np.full(cluster.num_devices, share, dtype=np.int64)
    return BytesMoved(HostPath.TO_NEXT_HOST, every), BytesMoved(HostPath.TO_DISKS, every)


def _opening(spec: CheckpointsSpec, files: Ints, num_bytes: Ints) -> float:
    """Seconds until all files are open, or until requests are answered."""
    if not files.any():
        return 0.0
    match spec.storage:
        case DisksSpec(open=opening):
            return float(files.max()) * opening
        case SharedSpec(open=opening, opens_per_second=rate):
            return max(float(files.max()) * opening, float(files.sum()) / rate)
        case ObjectStoreSpec(request=request, part=part, connections=connections):
            requests = np.ceil(num_bytes / part)
            rounds = np.ceil(requests / connections)
            return float(np.maximum(rounds, files).max()) * request
        case ReplicasSpec():
            return 0.0
