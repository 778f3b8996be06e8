"""The input pipeline: the part of the batch that every rank receives, and the host's work to deliver it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from simcluster.cluster import CORE, Cluster, HostPath
from simcluster.deferred_dataclass import dataclass
from simcluster.document import Bytes, Duration, PositiveInt, Section
from simcluster.errors import PlanError, Problem
from simcluster.layout import Layout, Mesh, SplitMesh, SubAxis
from simcluster.model import Graph
from simcluster.plan.data.dataset_strategy import (
    DATA_PARALLEL,
    FULL_BATCH,
    Strategy,
    dataset_layouts,
    dataset_sub_axes,
    given_feed_layouts,
)
from simcluster.plan.data.distributed_sampler import Epoch
from simcluster.plan.spec import WrittenOperands, planner_operands, read_operands


def _read(written: Any) -> Any:
    return written if written in (DATA_PARALLEL, FULL_BATCH) else read_operands(written)


class DataSpec(Section):
    """The scenario's ``data:`` section. Without it inputs are there when they are read, at no cost.

    With it every device gets its part of each micro-batch through its host: read, decoded on the host's
    cores, copied over PCIe. The run starts with as much prepared as ``prefetch`` allows, as a step in the
    middle of a long run does.
    """

    strategy: Annotated[
        Literal["data_parallel", "full_batch"] | Annotated[WrittenOperands, Field(min_length=1)] | None,
        BeforeValidator(_read),
    ] = None
    """Which part of the global batch a device gets, as MindSpore's dataset_strategy: its own part of the
    first dim (data_parallel), all of it (full_batch), or for every input the axes that shard its dims,
    ``[[data, null], [data, null]]``, or the number of parts of each dim, ``((1, 1, 1, 8), (8,))``. If the
    first operator needs another layout, the input is redistributed. If absent, exactly what the first
    operator reads."""

    source: Literal["memory", "disks", "storage"] = "memory"
    """Where samples are stored: in the host's memory, on its disks, or on the storage shared by all hosts."""

    sample: Bytes | None = None
    """Stored size of a sample; if absent, its size on the device."""

    decode: Duration = 0.0
    """Time of one host core to decode a sample."""

    rows: PositiveInt | None = None
    """Samples of the dataset; determines how many steps an epoch has."""

    workers: PositiveInt = 4
    """Host cores that decode for one device at the same time (num_parallel_workers)."""

    prefetch: PositiveInt = 2
    """Decoded micro-batches kept ahead in the host's memory; one more is on the device."""

    def build(self) -> InputPipeline:
        """What it says."""
        source = {"disks": HostPath.FROM_DISKS, "storage": HostPath.FROM_STORAGE}.get(self.source)
        strategy = self.strategy if isinstance(self.strategy, str) else planner_operands(self.strategy)
        return InputPipeline(
            strategy, source, self.sample, self.decode, self.workers, self.prefetch, self.rows
        )


@dataclass(frozen=True, slots=True)
class InputPipeline:
    """The input pipeline of every device: where samples are read, decoded and prefetched."""

    strategy: Strategy | None
    """The part of every input that a rank receives; None: what the first operator reads."""
    way: HostPath | None
    """How samples get to the host's memory; None: they are there."""
    sample: float | None
    """Bytes of a sample where it is stored; None: as many as on the device."""
    decode: float
    """Seconds of one host core to decode a sample."""
    workers: int
    """Cores that decode for one device."""
    prefetch: int
    """Micro-batches that are decoded ahead in the host's memory."""
    rows: int | None = None
    """Samples of the dataset; None: not known."""

    def epoch(self, graph: Graph, mesh: Mesh, batch: int) -> Epoch | None:
        """The epoch: how many rows each shard reads of the dataset, with ``batch`` samples per step.

        There are as many shards as the feeds of the sharded ``graph`` have parts along their first dim.
        """
        if self.rows is None:
            return None
        shards = max(
            mesh.product(layout.dims[0]) for layout in given_feed_layouts(graph).values() if layout.dims
        )
        return Epoch.of(self.rows, shards, batch // shards)

    @property
    def ways(self) -> Iterator[tuple[HostPath, str]]:
        """The copies and host work that are needed, each with the key path that asks for it."""
        if self.way is not None:
            yield self.way, "data.source"
        if self.decode:
            yield HostPath.DECODE, "data.decode"

    @property
    def decoding(self) -> float:
        """Cores that decode for one device, as a rate of host work: nanoseconds of cores per second."""
        return self.workers * CORE

    def layouts(
        self, graph: Graph, mesh: Mesh, stage_axis: str, cut: SplitMesh | None = None, *, pads: bool = False
    ) -> Mapping[str, Layout]:
        """Feed -> the layout in which ranks receive it; empty: as the first operator reads it.

        With ``pads`` dims need not divide. Raises PlanError with every input that does not fit the model or
        the mesh.
        """
        return (
            {}
            if self.strategy is None
            else dataset_layouts(self.strategy, graph, mesh, stage_axis, cut, pads=pads)
        )

    def digits(self, graph: Graph, devices: int) -> Iterator[tuple[str, str, SubAxis]]:
        """(input, key path, sub-axis) of every split that is written as a number, on the ranks of a stage."""
        return iter(()) if self.strategy is None else dataset_sub_axes(self.strategy, graph, devices)


def check_inputs(inputs: InputPipeline | None, cluster: Cluster) -> None:
    """PlanError if the hosts lack the disks, storage or processors that the input pipeline needs."""
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
                HostPath.DECODE: "does not say how many cores it has (processors.cores)" * (not host.cores),
                HostPath.FROM_DISKS: "does not say how fast its disks are (disks.read, disks.write)"
                * (not (host.disk_read and host.disk_write)),
            }.get(way, "")
            if lacking:
                problems.append(Problem(f"host '{host.name}' {lacking}", path))
        if way is HostPath.FROM_STORAGE and cluster.storage is None:
            problems.append(Problem("the cluster has no storage", path, "write cluster.storage"))
    if problems:
        raise PlanError(*problems)
