"""The sequence of movements between two layouts of a tensor: a shortest path over layouts.

Or, if asked for, the one that MindSpore infers.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from simcluster.errors import PlanError
from simcluster.layout import Kind, Layout, Mesh, Movement, inferred, movements
from simcluster.model import TensorType

Cost = Callable[[Movement, int], float]
"""Seconds of a movement that concerns this many bytes, counted as ``Movement.num_bytes`` counts them."""

Path = tuple[tuple[Movement, Layout], ...]
"""Movements with the layout each of them reaches."""


def local_bytes(kind: TensorType, layout: Layout, mesh: Mesh) -> int:
    """Bytes one rank holds of a tensor in a layout."""
    return TensorType(layout.local_shape(kind.shape, mesh), kind.dtype).num_bytes


@dataclass
class Router:
    """Finds paths on one mesh by one cost function, remembering what it found.

    With ``infers`` it takes MindSpore's sequences where MindSpore has one: not for flat buffers. Without
    ``all_to_all`` nothing is exchanged: what moves from dim to dim is gathered and sliced.
    """

    mesh: Mesh
    cost: Cost
    infers: bool = False
    all_to_all: bool = True
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
            steps = inferred(start, target, all_to_all=self.all_to_all) if self.infers else None
            self._found[key] = (
                self._search(kind, start, target)
                if steps is None
                else (self.price(kind, start, steps), steps)
            )
        return self._found[key]

    def price(self, kind: TensorType, start: Layout, steps: Path) -> float:
        """Seconds of a sequence of movements."""
        total, before = 0.0, local_bytes(kind, start, self.mesh)
        for movement, reached in steps:
            after = local_bytes(kind, reached, self.mesh)
            ways = self.mesh.product(movement.axes)
            total += self.cost(movement, movement.num_bytes(before, after, ways))
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
            before = local_bytes(kind, layout, self.mesh)
            for movement, reached in movements(layout, target):
                if reached in settled or not self._possible(kind, reached):
                    continue
                if movement.kind is Kind.ALL_TO_ALL and not self.all_to_all:
                    continue
                ways = self.mesh.product(movement.axes)
                size = movement.num_bytes(before, local_bytes(kind, reached, self.mesh), ways)
                price = spent + self.cost(movement, size)
                entry = (price, steps + 1, next(order), reached, (*path, (movement, reached)))
                heapq.heappush(queue, entry)
        raise PlanError(f"no sequence of collectives leads from layout {start} to {target}")

    def _possible(self, kind: TensorType, layout: Layout) -> bool:
        """Whether every dim divides: steps in between must not need padding."""
        sizes = zip(kind.shape, layout.dims, strict=True)
        if any(size % self.mesh.product(axes) for size, axes in sizes):
            return False
        parts = layout.with_halos(()).local_shape(kind.shape, self.mesh) if layout.halos else ()
        return all(max(halo.before, halo.after) <= parts[halo.dim] for halo in layout.halos)
