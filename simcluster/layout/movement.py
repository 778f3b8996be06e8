"""The steps between two layouts of one tensor: slice, all-gather, all-to-all, reduce-scatter, all-reduce, and
exchanges with neighbours.

This is only the algebra: which layouts one step reaches. What a step costs, and so which path is taken, the
planner decides.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

from simcluster.deferred_dataclass import dataclass
from simcluster.layout.halo import Halo
from simcluster.layout.layout import Layout

FLAT = -1
"""Stands for the flat buffer where a movement names a tensor dim."""


class MovementKind(enum.StrEnum):
    """What a movement does; all but ``slice`` and ``copy`` are collectives over the group of its axes."""

    SLICE = "slice"
    ALL_GATHER = "all_gather"
    ALL_TO_ALL = "all_to_all"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_REDUCE = "all_reduce"
    COPY = "copy"
    NEIGHBOR_EXCHANGE = "neighbor_exchange"
    SHIFT = "shift"
    ROTATE = "rotate"
    BROADCAST = "broadcast"
    REDUCE = "reduce"
    BARRIER = "barrier"
    SEND_RECEIVE = "send_receive"
    ALL_TO_ALL_V = "all_to_all_v"


ROUTED = (MovementKind.BARRIER, MovementKind.SEND_RECEIVE, MovementKind.ALL_TO_ALL_V)
"""Kinds that bring any number of tensors along routes, or none."""


@dataclass(frozen=True, slots=True)
class RoutedTransfer:
    """A tensor that is sent: ``given`` is which of those its sender has for others, ``got`` which of
    what its receiver gets. Ranks are places in the group.
    """

    sender: int
    given: int
    receiver: int
    got: int
    num_bytes: int


@dataclass(frozen=True, slots=True)
class Movement:
    """One step between two layouts, over a group of axes.

    An exchange with neighbours takes the elements before and after a rank's own from ``halo`` to ``to_halo``:
    it reads more of them, or adds some to their owners'. A ``shift`` does so in one direction only. A
    ``rotate`` gives every rank the array of the one before it, and the first that of the last. A ``copy``
    puts halos and what they border into one array, or takes them out of it. The root of a broadcast or reduce
    is the first of its group.
    """

    kind: MovementKind
    """What it does."""
    axes: tuple[str, ...]
    """The axes of its group, outermost first."""
    dim: int = 0
    """The tensor dim that is gathered, sliced or scattered; ``FLAT`` for the flat buffer."""
    to_dim: int = 0
    """The dim that an all-to-all splits."""
    reduction: str = "sum"
    """How partial values are put together."""
    halo: tuple[int, int] = (0, 0)
    """Elements before and after a rank's own that it has."""
    to_halo: tuple[int, int] = (0, 0)
    """Elements before and after a rank's own that it gets."""
    fill: float = 0.0
    """What stands beyond the ends of the tensor."""
    routes: tuple[RoutedTransfer, ...] = ()
    """Of sends, and of exchanges of parts of different sizes: whole tensors, by sender and receiver."""

    @property
    def is_collective(self) -> bool:
        """False for a slice or a copy, which every rank does alone."""
        return self.kind not in (MovementKind.SLICE, MovementKind.COPY)

    def num_bytes(self, before: int, after: int, ways: int) -> int:
        """Its size as nccl-tests counts, from the bytes each of ``ways`` ranks holds before and after it.

        The buffer of an all-reduce or all-to-all, the input of a reduce-scatter, the output of an all-gather,
        what they are padded with included; of exchanges with neighbours what a rank with neighbours sends. Of
        what goes along routes a send's tensor, else what a rank sends in the mean.
        """
        match self.kind:
            case MovementKind.SEND_RECEIVE:
                return sum(route.num_bytes for route in self.routes)
            case MovementKind.ALL_TO_ALL_V:
                return round(sum(route.num_bytes for route in self.routes) / ways)
            case MovementKind.BARRIER:
                return 0
            case MovementKind.NEIGHBOR_EXCHANGE | MovementKind.SHIFT:
                return abs(after - before)
            case MovementKind.SLICE | MovementKind.COPY:
                return after
            case MovementKind.ALL_GATHER:
                return before * ways
            case MovementKind.REDUCE_SCATTER:
                return after * ways
            case _:
                return before

    def __str__(self) -> str:
        if not self.axes:
            return str(self.kind)
        return f"{self.kind} over {'+'.join(self.axes)}"


def movements(layout: Layout, target: Layout) -> Iterator[tuple[Movement, Layout]]:
    """Every step worth taking from ``layout`` towards ``target``, with the layout it reaches.

    Axes move in runs, so that one collective serves several axes at once. Only the innermost axes of a dim
    can be gathered: what an outer axis holds is not contiguous. A flat buffer is made and gathered as one,
    since runs of runs would be padded twice. Steps that use axes neither layout knows are never worth taking.
    Halos are read last and added first, one dim after the other, so that corners travel along.
    """
    if layout.halos or layout.dims == target.dims:
        yield from _halo_steps(layout, target)
    if layout.halos:
        return
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
            yield Movement(MovementKind.ALL_REDUCE, axes, reduction=how), left
            if how != "sum":
                continue
            for dim in range(len(layout.dims)):
                run = target.dims[dim][len(layout.dims[dim]) :][: len(axes)]
                if set(run) == set(axes) and not layout.flat:
                    yield Movement(MovementKind.REDUCE_SCATTER, run, dim), _append(left, dim, run)
            if set(target.flat) == set(axes) and layout.dims == target.dims and not layout.flat:
                yield (
                    Movement(MovementKind.REDUCE_SCATTER, target.flat, FLAT),
                    replace(left, flat=target.flat),
                )


def _gathers(layout: Layout) -> Iterator[tuple[Movement, Layout]]:
    if layout.flat:
        yield Movement(MovementKind.ALL_GATHER, layout.flat, FLAT), replace(layout, flat=())
        return
    for dim, axes in enumerate(layout.dims):
        for count in range(1, len(axes) + 1):
            yield Movement(MovementKind.ALL_GATHER, axes[-count:], dim), _shorten(layout, dim, count)


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
            yield Movement(MovementKind.SLICE, rest[:count], dim), _append(layout, dim, rest[:count])
    if target.flat and layout.dims == target.dims and not used & set(target.flat):
        yield Movement(MovementKind.SLICE, target.flat, FLAT), replace(layout, flat=target.flat)


def _exchanges(layout: Layout, target: Layout) -> Iterator[tuple[Movement, Layout]]:
    if layout.flat:
        return
    for dim, axes in enumerate(layout.dims):
        for count in range(1, len(axes) + 1):
            run = axes[-count:]
            for to_dim in range(len(layout.dims)):
                if to_dim != dim and any(axis in target.dims[to_dim] for axis in run):
                    moved = _append(_shorten(layout, dim, count), to_dim, run)
                    yield Movement(MovementKind.ALL_TO_ALL, run, dim, to_dim), moved


def _halo_steps(layout: Layout, target: Layout) -> Iterator[tuple[Movement, Layout]]:
    """The next step towards the halos of the target: both ways at once as far as both are due, then one.

    Between the exchanges and the kernel that reads or wrote the array as one, everything is copied once.
    """
    owed = [halo for halo in layout.halos if halo.adds]
    if owed and not owed[-1].apart:
        yield Movement(MovementKind.COPY, ()), _laid(layout, apart=True)
    elif owed:
        yield _halo_step(layout, owed[-1], replace(owed[-1], before=0, after=0))
    elif layout.flat or any(halo.adds for halo in target.halos):
        return
    else:
        have = {halo.dim: halo for halo in layout.halos}
        for halo in target.halos:
            wanted = replace(halo, apart=True)
            now = have.get(halo.dim, replace(wanted, before=0, after=0))
            grows = now.before <= halo.before and now.after <= halo.after and now.fill == halo.fill
            if now != wanted:
                if grows and now.apart:
                    yield _halo_step(layout, now, wanted)
                return
        if target.halos:
            yield Movement(MovementKind.COPY, ()), _laid(layout, apart=False)


def _laid(layout: Layout, *, apart: bool) -> Layout:
    return layout.with_halos([replace(halo, apart=apart) for halo in layout.halos])


def _halo_step(layout: Layout, old: Halo, new: Halo) -> tuple[Movement, Layout]:
    before, after = new.before - old.before, new.after - old.after
    both = min(abs(before), abs(after))
    if both:
        reached = replace(
            old, before=old.before + _sign(before) * both, after=old.after + _sign(after) * both
        )
    else:
        reached = new
    movement = Movement(
        MovementKind.NEIGHBOR_EXCHANGE if both else MovementKind.SHIFT,
        layout.dims[old.dim],
        old.dim,
        halo=(old.before, old.after),
        to_halo=(reached.before, reached.after),
        fill=old.fill,
    )
    others = tuple(halo for halo in layout.halos if halo.dim != old.dim)
    return movement, layout.with_halos((*others, reached))


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)


def _append(layout: Layout, dim: int, axes: tuple[str, ...]) -> Layout:
    dims = list(layout.dims)
    dims[dim] += axes
    return replace(layout, dims=tuple(dims))


def _shorten(layout: Layout, dim: int, count: int) -> Layout:
    dims = list(layout.dims)
    dims[dim] = dims[dim][:-count]
    return replace(layout, dims=tuple(dims))
