"""The movements from one layout of a tensor to another: a shortest path over layouts, or MindSpore's
inference, which is taken where it is asked for or layouts have too many axes to search.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import field
from itertools import count

import numpy as np

from simcluster.collectives import UnequalPartsByGroup
from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError
from simcluster.layout import Layout, Mesh, Movement, MovementKind, infer_mindspore_sequence, movements
from simcluster.model import TensorType

MOST_SEARCHED_AXES = 6
"""Axes of two layouts up to which the cheapest movements are searched. Each more multiplies the layouts
between them; 12 of 2 ranks, as on a mesh that a search cut finely, would take minutes."""

MovementCost = Callable[[Movement, int], float]
"""(movement, bytes as ``Movement.num_bytes`` counts them) -> seconds."""

Path = tuple[tuple[Movement, Layout], ...]
"""Movements, each with the layout after it."""


def part_type(kind: TensorType, layout: Layout, mesh: Mesh) -> TensorType:
    """The type of one rank's part of a tensor."""
    return TensorType(layout.local_shape(kind.shape, mesh), kind.dtype)


def local_bytes(kind: TensorType, layout: Layout, mesh: Mesh) -> int:
    """Bytes of one rank's part of a tensor."""
    return part_type(kind, layout, mesh).num_bytes


def collective_bytes(
    movement: Movement, before: TensorType | None, after: TensorType | None, mesh: Mesh
) -> int:
    """The size of a movement as ``Movement.num_bytes`` counts it, from a rank's parts before and after.

    An all-to-all pads a dim that does not divide.
    """
    ways = mesh.product(movement.axes)
    if movement.kind is MovementKind.ALL_TO_ALL and before is not None and after is not None:
        dim = movement.to_dim
        length = after.shape[dim] * ways
        before = TensorType((*before.shape[:dim], length, *before.shape[dim + 1 :]), before.dtype)
    held, reached = (0 if kind is None else kind.num_bytes for kind in (before, after))
    return movement.num_bytes(held, reached, ways)


def expert_parts(movement: Movement, mesh: Mesh) -> UnequalPartsByGroup | None:
    """Which part each rank sends to which in every group; None where that is the same for all, or one rank
    sends.
    """
    if movement.kind is not MovementKind.ALL_TO_ALL_V:
        return None
    counts = np.zeros((mesh.product(movement.axes),) * 2, dtype=np.int64)
    for route in movement.routes:
        counts[route.sender, route.receiver] += route.num_bytes
    return UnequalPartsByGroup.of([counts] * len(mesh.groups(movement.axes)))


@dataclass
class RedistributionPlanner:
    """Finds movements between layouts on one mesh by one cost function, and remembers them."""

    mesh: Mesh
    """The mesh."""
    cost: MovementCost
    """Seconds of a movement."""
    infers: bool = False
    """Takes MindSpore's sequences where MindSpore has one: not for flat buffers."""
    all_to_all: bool = True
    """Allows all-to-all; without it dims exchange axes by all-gather and slice."""
    pads: bool = False
    """Dims need not divide, except those with halos."""
    saves_as_read: bool = False
    """The backward finds activations as the forward read them; else as they were made."""
    _found: dict[tuple[Layout, Layout, TensorType], tuple[float, Path]] = field(default_factory=dict)

    def path(self, kind: TensorType, start: Layout, target: Layout) -> Path:
        """The cheapest movements from ``start`` to ``target``; PlanError if there is no way."""
        return self.priced(kind, start, target)[1]

    def priced(self, kind: TensorType, start: Layout, target: Layout) -> tuple[float, Path]:
        """The cheapest movements with their cost in seconds."""
        if start == target:
            return 0.0, ()
        key = (start, target, kind)
        if key not in self._found:
            inferred = list(self._inferred(start, target)) if self._infers(start, target) else []
            self._found[key] = (
                min(
                    ((self.price(kind, start, steps), steps) for steps in inferred),
                    key=lambda priced: priced[0],
                )
                if inferred
                else self._search(kind, start, target)
            )
        return self._found[key]

    def _infers(self, start: Layout, target: Layout) -> bool:
        """Whether layouts are inferred: as asked for, or because there are too many to search."""
        return self.infers or len({*start.axes, *target.axes}) > MOST_SEARCHED_AXES

    def _inferred(self, start: Layout, target: Layout) -> Iterator[Path]:
        """MindSpore's sequence; where only too many axes ask for it, also one that scatters sums at once."""
        steps = infer_mindspore_sequence(start, target, all_to_all=self.all_to_all)
        if steps is not None:
            yield steps
        if steps is None or self.infers:
            return
        for movement, scattered in movements(start, target):
            if movement.kind is MovementKind.REDUCE_SCATTER:
                rest = infer_mindspore_sequence(scattered, target, all_to_all=self.all_to_all)
                if rest is not None:
                    yield ((movement, scattered), *rest)

    def price(self, kind: TensorType, start: Layout, steps: Path) -> float:
        """Seconds of a sequence of movements."""
        total, before = 0.0, part_type(kind, start, self.mesh)
        for movement, reached in steps:
            after = part_type(kind, reached, self.mesh)
            total += self.cost(movement, collective_bytes(movement, before, after, self.mesh))
            before = after
        return total

    def _search(self, kind: TensorType, start: Layout, target: Layout) -> tuple[float, Path]:
        order = count()
        queue: list[tuple[float, int, int, Layout, Path]] = [(0.0, 0, next(order), start, ())]
        settled: set[Layout] = set()
        while queue:
            spent, steps, _, layout, path = heapq.heappop(queue)
            if layout == target:
                return spent, path
            if layout in settled:
                continue
            settled.add(layout)
            before = part_type(kind, layout, self.mesh)
            for movement, reached in movements(layout, target):
                if reached in settled or not self._possible(kind, reached):
                    continue
                if movement.kind is MovementKind.ALL_TO_ALL and not self.all_to_all:
                    continue
                after = part_type(kind, reached, self.mesh)
                size = collective_bytes(movement, before, after, self.mesh)
                price = spent + self.cost(movement, size)
                entry = (price, steps + 1, next(order), reached, (*path, (movement, reached)))
                heapq.heappush(queue, entry)
        raise PlanError(f"no sequence of collectives leads from layout {start} to {target}")

    def _possible(self, kind: TensorType, layout: Layout) -> bool:
        """Whether every dim divides, or may be padded."""
        padded = layout.padded(kind.shape, self.mesh)
        if padded and (not self.pads or any(halo.dim in padded for halo in layout.halos)):
            return False
        parts = layout.with_halos(()).local_shape(kind.shape, self.mesh) if layout.halos else ()
        return all(max(halo.before, halo.after) <= parts[halo.dim] for halo in layout.halos)
