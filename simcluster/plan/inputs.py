"""The input pipeline: which part of the batch every rank is given, and what it takes to get it there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from simcluster.cluster import Cluster, Way
from simcluster.cluster.inside import CORE
from simcluster.document import Bytes, Duration, Name, PositiveInt, Section
from simcluster.errors import PlanError, Problem, nearest
from simcluster.layout import Layout, Mesh, pieces
from simcluster.model import Graph
from simcluster.plan.redistribute import Router
from simcluster.plan.samples import Epoch

Entry = Name | Literal[1] | None | tuple[Name, ...]
"""What splits one dim of an input: an axis, several (outer first), or nothing (null or 1)."""


class DataSpec(Section):
    """The scenario's ``data:`` section. Without it inputs are there when they are read, at no cost.

    With it every device gets its part of each micro-batch through its host: read, decoded on the host's
    cores, copied over PCIe. The run starts with as much prepared as ``prefetch`` allows, as a step in the
    middle of a long run does.
    """

    strategy: (
        Literal["data_parallel", "full_batch"]
        | Annotated[tuple[tuple[Entry, ...], ...], Field(min_length=1)]
        | None
    ) = None
    """Which part of the global batch a device gets, as MindSpore's dataset_strategy: its own part of the
    first dim (data_parallel), all of it (full_batch), or for every input the axes that split its dims,
    ``[[data, null], [data, null]]``. What the first operator wants otherwise is redistributed. Absent:
    exactly what the first operator reads."""

    source: Literal["memory", "disks", "storage"] = "memory"
    """Where samples lie: in the host's memory, on its disks, or on the storage that hosts share."""

    sample: Bytes | None = None
    """What a sample takes there; absent: as much as on the device."""

    decode: Duration = 0.0
    """What decoding a sample takes one core of the host."""

    rows: PositiveInt | None = None
    """Samples of the dataset: tells how many steps an epoch has."""

    workers: PositiveInt = 4
    """Cores that decode for one device at the same time (num_parallel_workers)."""

    prefetch: PositiveInt = 2
    """Micro-batches that lie decoded ahead in the host's memory; one more is on the device."""

    def build(self) -> Inputs:
        """What it says."""
        source = {"disks": Way.FROM_DISKS, "storage": Way.FROM_STORAGE}.get(self.source)
        return Inputs(self.strategy, source, self.sample, self.decode, self.workers, self.prefetch, self.rows)


@dataclass(frozen=True, slots=True)
class Inputs:
    """``way`` of samples of ``sample`` bytes to memory (None: they are there), seconds of a core for each,
    cores for each device, micro-batches ahead, and samples of the dataset.
    """

    strategy: str | tuple[tuple[Entry, ...], ...] | None
    way: Way | None
    sample: float | None
    decode: float
    workers: int
    prefetch: int
    rows: int | None = None

    def epoch(self, batch: int, ways: int) -> Epoch | None:
        """The dataset as shards read it, of which each takes its part of the ``batch`` per step: one for each
        of so many data-parallel ``ways``, or where everybody reads everything one in all.
        """
        if self.rows is None:
            return None
        shards = 1 if self.strategy == "full_batch" else ways
        return Epoch.of(self.rows, shards, batch // shards)

    @property
    def ways(self) -> Iterator[tuple[Way, str]]:
        """The ways that are used, and the key that asks for each."""
        if self.way is not None:
            yield self.way, "data.source"
        if self.decode:
            yield Way.DECODE, "data.decode"

    @property
    def decoding(self) -> float:
        """What a device asks of its host's cores, in their nanoseconds per second."""
        return self.workers * CORE

    def layouts(self, graph: Graph, router: Router, stage_axis: str) -> Mapping[str, Layout]:
        """Feed -> the layout in which it comes, on the router's mesh; none where the first operator's wish
        counts.

        Raises PlanError for what does not fit the inputs or the mesh, with every reason.
        """
        if self.strategy is None:
            return {}
        mesh = router.mesh
        feeds = {
            name: block.values[name].type.shape for block in graph.blocks.values() for name in block.feeds
        }
        if self.strategy == "full_batch":
            return {name: Layout.replicated(len(shape)) for name, shape in feeds.items()}
        axes = tuple(name for name, size in mesh.axes if name != stage_axis and size > 1)
        if self.strategy == "data_parallel":
            found = {name: Layout((axes, *((),) * (len(shape) - 1))) for name, shape in feeds.items()}
        else:
            assert not isinstance(self.strategy, str)
            found = _written(self.strategy, feeds, mesh, stage_axis)
        if not router.pads and (problems := list(_uneven(found, feeds, mesh))):
            raise PlanError(*problems)
        return found


def _written(
    strategy: tuple[tuple[Entry, ...], ...],
    feeds: Mapping[str, tuple[int, ...]],
    mesh: Mesh,
    stage_axis: str,
) -> dict[str, Layout]:
    """The layouts that a scenario writes input by input."""
    told = ", ".join(f"{name} of {len(shape)} dims" for name, shape in feeds.items())
    if len(strategy) != len(feeds):
        raise PlanError(
            f"{len(strategy)} inputs are listed, but the model has {len(feeds)}",
            path="data.strategy",
            hint=told,
        )
    problems, found = [], {}
    known = [name for name in mesh.names if name != stage_axis]
    for number, ((name, shape), entries) in enumerate(zip(feeds.items(), strategy, strict=True)):
        path = f"data.strategy.{number}"
        if len(entries) != len(shape):
            problems.append(Problem(f"{name} has {len(shape)} dims, not {len(entries)}", path))
            continue
        dims = tuple(tuple(part for axis in _axes(entry) for part in pieces(mesh, axis)) for entry in entries)
        used = [axis for axes in dims for axis in axes]
        problems += [
            Problem(f"no axis '{axis}' splits inputs", path, nearest(axis, known))
            for axis in used
            if axis not in known
        ]
        problems += [
            Problem(f"axis '{axis}' splits two dims of {name} at once", path)
            for axis in dict.fromkeys(used)
            if used.count(axis) > 1
        ]
        found[name] = Layout(tuple(tuple(axis for axis in axes if mesh.size(axis) > 1) for axes in dims))
    if problems:
        raise PlanError(*problems)
    return found


def _axes(entry: Entry) -> tuple[str, ...]:
    if entry is None or entry == 1:
        return ()
    return (entry,) if isinstance(entry, str) else tuple(map(str, entry))


def _uneven(
    layouts: Mapping[str, Layout], feeds: Mapping[str, tuple[int, ...]], mesh: Mesh
) -> Iterator[Problem]:
    for name, layout in layouts.items():
        for dim, (size, axes) in enumerate(zip(feeds[name], layout.dims, strict=True)):
            ways = mesh.product(axes)
            if size % ways:
                over = " x ".join(f"{axis} {mesh.size(axis)}" for axis in axes)
                yield Problem(
                    f"dim {dim} of {name}, {size} in a micro-batch of all, does not divide over {over}: "
                    f"{size} / {ways} = {size / ways:g}",
                    "data.strategy",
                    "use a larger training.micro_batch, split less, or write parallel: {uneven: pad}",
                )


def check_inputs(inputs: Inputs | None, cluster: Cluster) -> None:
    """PlanError if the hosts lack what the input pipeline needs."""
    if inputs is None:
        return
    problems = [
        Problem(
            f"host '{host.name}' has no PCIe over which inputs would come", "data", "leave the section out"
        )
        for host in cluster.kinds
        if host.pcie is None
    ]
    for way, path in inputs.ways:
        for host in cluster.kinds:
            lacking = {
                Way.DECODE: "does not say how many cores it has (processors.cores)" * (not host.cores),
                Way.FROM_DISKS: "does not say how fast its disks are (disks.read, disks.write)"
                * (not (host.disk_read and host.disk_write)),
            }.get(way, "")
            if lacking:
                problems.append(Problem(f"host '{host.name}' {lacking}", path))
        if way is Way.FROM_STORAGE and cluster.storage is None:
            problems.append(Problem("the cluster has no storage", path, "write cluster.storage"))
    if problems:
        raise PlanError(*problems)
