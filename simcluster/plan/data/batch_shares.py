"""Micro-batches of every rank: equally many, or by unequal shares of the global batch along one axis.

A rank with a larger share runs more micro-batches of the same size. The loss is a sum divided by the global
count (DESIGN 4.2), so gradients of unequal shares simply add up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError, nearest
from simcluster.layout import Mesh, Movement, axis_pieces, base_axis
from simcluster.model import Graph, Node, Phase

PATH = "training.batch_shares"

_EACH_TIME = (Phase.GATHER, Phase.FORWARD, Phase.REGATHER, Phase.BACKWARD, Phase.WEIGHTS, Phase.SCATTER)


@dataclass(frozen=True, slots=True)
class MicroBatches:
    """Micro-batches per step of every rank."""

    axis: str
    """The mesh axis along which ranks have different numbers of them; empty: all have the same."""
    by_coordinate: tuple[int, ...]
    """The number at each coordinate of ``axis``; one number without an axis."""

    @property
    def counts(self) -> tuple[int, ...]:
        """The distinct numbers, in the order of the first coordinates that have them: one program variant for
        each.
        """
        return tuple(dict.fromkeys(self.by_coordinate))

    @property
    def variants(self) -> tuple[int, ...]:
        """The variant of each coordinate, as an index into ``counts``."""
        return tuple(self.counts.index(count) for count in self.by_coordinate)

    @property
    def most(self) -> int:
        """The largest number."""
        return max(self.by_coordinate)

    def in_copies(self, copies: int) -> MicroBatches:
        """The same samples, each micro-batch divided into ``copies`` smaller ones."""
        return MicroBatches(self.axis, tuple(count * copies for count in self.by_coordinate))

    def taken_together(self, copies: int) -> MicroBatches:
        """The same samples, ``copies`` micro-batches merged into one."""
        return MicroBatches(self.axis, tuple(count // copies for count in self.by_coordinate))

    def rows(self, mesh: Mesh, batch_axes: Sequence[str], size: int) -> list[list[tuple[int, int]]]:
        """Per micro-batch, the ranges [first, end) of its samples that some rank trains.

        A micro-batch of all ranks together has ``size`` samples for each of them, in the order in which
        ``batch_axes`` split the batch.
        """
        sizes = [mesh.size(axis) for axis in batch_axes]
        blocks = np.arange(mesh.product(batch_axes))
        trained = np.full(len(blocks), self.most)
        if self.axis:
            position = list(batch_axes).index(self.axis)
            trained = np.array(self.by_coordinate)[np.unravel_index(blocks, sizes)[position]]
        return [_runs(np.flatnonzero(trained > number), size) for number in range(self.most)]


def _runs(blocks: np.ndarray, size: int) -> list[tuple[int, int]]:
    """Neighbouring blocks of ``size`` samples as one run."""
    edges = np.flatnonzero(np.diff(blocks) != 1) + 1
    parts = np.split(blocks, edges)
    return [(int(part[0]) * size, (int(part[-1]) + 1) * size) for part in parts if len(part)]


def micro_batches_of(
    global_batch: int,
    micro_batch: int,
    shares: Mapping[str, Sequence[int]],
    batch_axes: Sequence[str],
    mesh: Mesh,
    path: str = "training.global_batch",
) -> MicroBatches:
    """The micro-batches of every rank; PlanError, with the arithmetic, if they are no whole number.

    ``path`` is where the global batch is written.
    """
    if not shares:
        return MicroBatches("", (_equal(global_batch, micro_batch, mesh.product(batch_axes), path),))
    axis, given = _checked(shares, batch_axes, mesh)
    others = mesh.product([name for name in batch_axes if name != axis])
    total, size = sum(given), micro_batch * others
    counts = []
    for coordinate, share in enumerate(given):
        count = global_batch * share / (total * size)
        if global_batch * share % (total * size):
            ways = f" x {others} ways" if others > 1 else ""
            raise PlanError(
                f"a share of {share} of {total} of global batch {global_batch} is not a whole number of "
                f"micro-batches of {micro_batch}{ways} at coordinate {coordinate} of {axis}: "
                f"{global_batch} x {share} / {total} / {size} = {count:g}",
                path=f"{PATH}.{axis}.{coordinate}",
                hint=f"use a global batch that is a multiple of {_step(given, size)}",
            )
        counts.append(global_batch * share // (total * size))
    if len(set(counts)) == 1:
        return MicroBatches("", (counts[0],))
    return MicroBatches(axis, tuple(counts))


def _equal(global_batch: int, micro_batch: int, ways: int, path: str) -> int:
    size = micro_batch * ways
    if global_batch % size:
        raise PlanError(
            f"global batch {global_batch} does not divide into micro-batches of "
            f"{micro_batch} on {ways} data-parallel ranks: {global_batch} / "
            f"({micro_batch} x {ways}) = {global_batch / size:g}",
            path=path,
            hint=f"use a multiple of {size}",
        )
    return global_batch // size


def _checked(
    shares: Mapping[str, Sequence[int]], batch_axes: Sequence[str], mesh: Mesh
) -> tuple[str, tuple[int, ...]]:
    """The one axis of the shares, and one share for each of its coordinates."""
    if len(shares) > 1:
        raise PlanError(f"shares along {' and '.join(shares)}; give those of one axis", path=PATH)
    ((axis, given),) = shares.items()
    if axis not in batch_axes:
        raise PlanError(
            f"'{axis}' is not an axis along which the batch is split",
            path=f"{PATH}.{axis}",
            hint=nearest(axis, batch_axes) or f"the batch is split over {', '.join(batch_axes) or 'nothing'}",
        )
    if len(given) != mesh.size(axis):
        raise PlanError(
            f"{len(given)} shares for {mesh.size(axis)} coordinates of {axis}", path=f"{PATH}.{axis}"
        )
    return axis, tuple(given)


def _step(shares: Sequence[int], size: int) -> int:
    """Global batches that divide by these shares are the multiples of this."""
    return sum(shares) // int(np.gcd.reduce(list(shares))) * size


def check_shares(found: MicroBatches, mesh: Mesh) -> None:
    """PlanError if the axis of unequal shares was split into sub-axes by a strategy that counts ranks."""
    if found.axis and found.axis not in mesh.sizes:
        cut = " x ".join(f"{axis} {mesh.size(axis)}" for axis in axis_pieces(mesh, found.axis))
        raise PlanError(
            f"shares are by coordinate of {found.axis}, which strategies cut into {cut}",
            path=f"{PATH}.{found.axis}",
            hint="write these strategies with axes instead of numbers, or with numbers that leave it whole",
        )


def check_unequal_batches(graph: Graph, found: MicroBatches, *, gathered_once: bool) -> None:
    """PlanError if ranks with unequal numbers of micro-batches had a collective with each other in every one.

    ``gathered_once``: weights that are gathered for the forward serve all micro-batches of a step.
    """
    if not found.axis:
        return
    once = (Phase.GATHER,) if gathered_once else ()
    for instance in graph.instances:
        for node in graph.block_of(instance).nodes:
            if node.phase in _EACH_TIME and node.phase not in once and found.axis in _met(node):
                fewest, most = min(found.by_coordinate), found.most
                first, last = found.by_coordinate.index(most), found.by_coordinate.index(fewest)
                raise PlanError(
                    f"{instance.name}.{node.name} runs {node.operator} in the {node.phase} of every "
                    f"micro-batch, but coordinate {first} of {found.axis} has {most} of them and coordinate "
                    f"{last} has {fewest}: {most} - {fewest} = {most - fewest} times nobody would answer",
                    path=f"{PATH}.{found.axis}",
                    hint="shares fit plans whose data ranks meet once per step: not fsdp, nor zero 2 or 3",
                )


def _met(node: Node) -> Iterator[str]:
    """The axes over which a node is a collective."""
    if isinstance(node.operator, Movement) and node.operator.is_collective:
        yield from (base_axis(axis) for axis in node.operator.axes)
