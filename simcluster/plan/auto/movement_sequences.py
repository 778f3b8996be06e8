"""MindSpore's sequences of movements, inferred once for all layouts that differ in names only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from functools import cache
from typing import NamedTuple

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Layout, Mesh, MovementKind, infer_mindspore_sequence

_Pair = tuple[int, int]
"""The dim that an axis splits in one layout, and in another; -1: none."""

_Step = tuple[MovementKind, tuple[int, ...], int]
"""Kind, axes by the places of their pairs, and the dim that is gathered or sliced, or loses them."""


class SequenceStep(NamedTuple):
    """One movement of a sequence: a tuple, because a search makes very many."""

    kind: MovementKind
    """What it does."""
    axes: tuple[str, ...]
    """The axes of its group."""
    dim: int
    """The tensor dim that is gathered or sliced, or that an all-to-all takes axes from."""
    ways: int
    """Ranks of its group."""
    before: float
    """The share of the tensor that a rank has before it."""
    after: float
    """The share of the tensor that a rank has after it."""


@dataclass
class MovementSequences:
    """Sequences on one mesh."""

    mesh: Mesh
    """The mesh."""
    _dims: dict[Layout, tuple[int, ...] | None] = field(default_factory=dict)
    _known: dict[tuple[_Pair, ...], tuple[_Step, ...]] = field(default_factory=dict)

    def between(self, made: Layout, need: Layout) -> Iterator[SequenceStep]:
        """The movements from one layout, without sums, halos and flat buffers, to another."""
        if made == need:
            return
        starts, targets = self._by_axis(made), self._by_axis(need)
        if starts is None or targets is None:
            yield from self._as_inferred(made, need)
            return
        share, moving = 1.0, 0
        used = []
        for (axis, size), start, target in zip(self.mesh.axes, starts, targets, strict=True):
            if start >= 0:
                share /= size
            if start != target:
                used.append((start, target, axis, size))
                moving |= (1 << start if start >= 0 else 0) | (1 << target if target >= 0 else 0)
            elif start >= 0:
                used.append((start, target, axis, size))
        pairs: list[_Pair] = []
        groups: list[list[str]] = []
        sizes: list[int] = []
        for start, target, axis, size in used:
            # A dim that only keeps what it has takes no part.
            if start == target and not moving >> start & 1:
                continue
            if pairs and pairs[-1] == (start, target):
                groups[-1].append(axis)
                sizes[-1] *= size
            else:
                pairs.append((start, target))
                groups.append([axis])
                sizes.append(size)
        key = tuple(pairs)
        if key not in self._known:
            self._known[key] = _inferred(key)
        for kind, places, dim in self._known[key]:
            ways = 1
            axes: list[str] = []
            for place in places:
                ways *= sizes[place]
                axes += groups[place]
            after = share
            if kind is MovementKind.SLICE:
                after = share / ways
            elif kind is MovementKind.ALL_GATHER:
                after = share * ways
            yield SequenceStep(kind, tuple(axes), dim, ways, share, after)
            share = after

    def _by_axis(self, layout: Layout) -> tuple[int, ...] | None:
        """For every axis of the mesh the dim it splits; None where a dim has its axes in another order."""
        if layout not in self._dims:
            dim_of = {axis: dim for dim, axes in enumerate(layout.dims) for axis in axes}
            order = {axis: place for place, axis in enumerate(self.mesh.names)}
            rising = all(list(axes) == sorted(axes, key=order.__getitem__) for axes in layout.dims)
            self._dims[layout] = tuple(dim_of.get(axis, -1) for axis in self.mesh.names) if rising else None
        return self._dims[layout]

    def _as_inferred(self, made: Layout, need: Layout) -> Iterator[SequenceStep]:
        """The same for layouts with axes in any order."""
        inferred = infer_mindspore_sequence(made, need)
        assert inferred is not None, "layouts without sums, halos and flat buffers have a sequence"
        before = 1 / self.mesh.product(made.axes)
        for movement, layout in inferred:
            after = 1 / self.mesh.product(layout.axes)
            ways = self.mesh.product(movement.axes)
            yield SequenceStep(movement.kind, movement.axes, movement.dim, ways, before, after)
            before = after


def _inferred(pairs: tuple[_Pair, ...]) -> tuple[_Step, ...]:
    """The sequence of layouts that give every axis so.

    Dims count by their order alone, so that a sequence is inferred once for all tensors.
    """
    dims = sorted({dim for pair in pairs for dim in pair if dim >= 0})
    number = {dim: place for place, dim in enumerate(dims)} | {-1: -1}
    steps = _inferred_by_order(tuple((number[start], number[target]) for start, target in pairs))
    return tuple((kind, axes, dims[dim]) for kind, axes, dim in steps)


@cache
def _inferred_by_order(pairs: tuple[_Pair, ...]) -> tuple[_Step, ...]:
    num_dims = 1 + max(max(pair) for pair in pairs)
    made, need = (
        Layout(
            tuple(
                tuple(str(place) for place, pair in enumerate(pairs) if pair[side] == dim)
                for dim in range(num_dims)
            )
        )
        for side in (0, 1)
    )
    steps = infer_mindspore_sequence(made, need)
    assert steps is not None, "layouts without sums, halos and flat buffers have a sequence"
    return tuple((movement.kind, tuple(map(int, movement.axes)), movement.dim) for movement, _ in steps)
