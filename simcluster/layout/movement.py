"""The steps between two layouts of one tensor: slice, all-gather, all-to-all, reduce-scatter, all-reduce.

Only the algebra stands here: which layouts one step reaches. What a step costs, and so which path is taken,
is the planner's affair.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations

from simcluster.layout.layout import Layout

FLAT = -1
"""Stands for the flat buffer where a movement names a tensor dim."""


class Kind(enum.StrEnum):
    """What a movement does; all but ``slice`` are collectives over the group of its axes."""

    SLICE = "slice"
    ALL_GATHER = "all_gather"
    ALL_TO_ALL = "all_to_all"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_REDUCE = "all_reduce"


@dataclass(frozen=True, slots=True)
class Movement:
    """One step over a group of axes.

    ``dim`` is the tensor dim that is gathered, sliced or scattered (``FLAT`` for the flat buffer); an
    all-to-all gathers ``dim`` and splits ``to_dim``.
    """

    kind: Kind
    axes: tuple[str, ...]
    dim: int = 0
    to_dim: int = 0
    reduction: str = "sum"

    @property
    def is_collective(self) -> bool:
        """False for a slice, which every rank does alone."""
        return self.kind is not Kind.SLICE

    def __str__(self) -> str:
        return f"{self.kind} over {'+'.join(self.axes)}"


def movements(layout: Layout, target: Layout) -> Iterator[tuple[Movement, Layout]]:
    """Every step worth taking from ``layout`` towards ``target``, with the layout it reaches.

    Axes move in runs, so that one collective serves several axes at once. Only the innermost axes of a dim
    can be gathered: what an outer axis holds is not contiguous. A flat buffer is made and gathered as one,
    since runs of runs would be padded twice. Steps that use axes neither layout knows are never worth taking.
    """
    yield from _reductions(layout, target)
    yield from _gathers(layout)
    yield from _slices(layout, target)
    yield from _exchanges(layout, target)


def _reductions(layout: Layout, target: Layout) -> Iterator[tuple[Movement, Layout]]:
    due = [(axis, how) for axis, how in layout.partial if axis not in target.partial_axes]
    for count in range(len(due), 0, -1):
        for chosen in combinations(due, count):
            hows = {how for _, how in chosen}
            if len(hows) > 1:
                continue
            axes = tuple(axis for axis, _ in chosen)
            left = replace(layout, partial=tuple(item for item in layout.partial if item not in chosen))
            how = hows.pop()
            yield Movement(Kind.ALL_REDUCE, axes, reduction=how), left
            if how != "sum":
                continue
            for dim in range(len(layout.dims)):
                run = target.dims[dim][len(layout.dims[dim]) :][: len(axes)]
                if set(run) == set(axes) and not layout.flat:
                    yield Movement(Kind.REDUCE_SCATTER, run, dim), _append(left, dim, run)
            if set(target.flat) == set(axes) and layout.dims == target.dims and not layout.flat:
                yield Movement(Kind.REDUCE_SCATTER, target.flat, FLAT), replace(left, flat=target.flat)


def _gathers(layout: Layout) -> Iterator[tuple[Movement, Layout]]:
    if layout.flat:
        yield Movement(Kind.ALL_GATHER, layout.flat, FLAT), replace(layout, flat=())
        return
    for dim, axes in enumerate(layout.dims):
        for count in range(1, len(axes) + 1):
            yield Movement(Kind.ALL_GATHER, axes[-count:], dim), _shorten(layout, dim, count)


def _slices(layout: Layout, target: Layout) -> Iterator[tuple[Movement, Layout]]:
    used = set(layout.axes)
    if layout.flat:
        return
    for dim, axes in enumerate(layout.dims):
        if target.dims[dim][: len(axes)] != axes:
            continue
        rest = target.dims[dim][len(axes) :]
        free = next((place for place, axis in enumerate(rest) if axis in used), len(rest))
        for count in range(free, 0, -1):
            yield Movement(Kind.SLICE, rest[:count], dim), _append(layout, dim, rest[:count])
    if target.flat and layout.dims == target.dims and not used & set(target.flat):
        yield Movement(Kind.SLICE, target.flat, FLAT), replace(layout, flat=target.flat)


def _exchanges(layout: Layout, target: Layout) -> Iterator[tuple[Movement, Layout]]:
    if layout.flat:
        return
    for dim, axes in enumerate(layout.dims):
        for count in range(1, len(axes) + 1):
            run = axes[-count:]
            for to_dim in range(len(layout.dims)):
                if to_dim != dim and any(axis in target.dims[to_dim] for axis in run):
                    moved = _append(_shorten(layout, dim, count), to_dim, run)
                    yield Movement(Kind.ALL_TO_ALL, run, dim, to_dim), moved


def _append(layout: Layout, dim: int, axes: tuple[str, ...]) -> Layout:
    dims = list(layout.dims)
    dims[dim] += axes
    return replace(layout, dims=tuple(dims))


def _shorten(layout: Layout, dim: int, count: int) -> Layout:
    dims = list(layout.dims)
    dims[dim] = dims[dim][:-count]
    return replace(layout, dims=tuple(dims))
