"""MindSpore's own sequence of redistribution operators between two layouts.

The inference of ``redistribution_operator_infer.cc``: split what is free, permute what another dim holds by
an all-to-all, gather what the target does not split; where none of these applies, gather the first dim. Costs
do not matter to it. It was written for one device dim per tensor dim; here a dim may be split over several,
of which only the innermost can be taken away and only the next can be added. Axes that stand together in both
layouts are one device dim, which is what MindSpore's unification of device matrices comes to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace

from simcluster.deferred_dataclass import dataclass
from simcluster.layout.layout import Layout
from simcluster.layout.movement import Movement, MovementKind

Unit = tuple[str, ...]
"""Axes that are one device dim."""

Step = tuple[Movement, Layout]


def infer_mindspore_sequence(
    start: Layout, target: Layout, *, all_to_all: bool = True
) -> tuple[Step, ...] | None:
    """The sequence with the layout each step reaches; None where MindSpore has none.

    It has no flat buffers and no halos, and nothing becomes partial by redistribution.
    Sums that are due are all-reduced first. Without ``all_to_all``, as with MindSpore's ``enable_alltoall``
    false, each exchange is an all-gather and a split.
    """
    if start.flat or target.flat or start.halos or target.halos:
        return None
    if not set(target.partial) <= set(start.partial):
        return None
    layout, steps = start, []
    due = [item for item in start.partial if item[0] not in target.partial_axes]
    for how in dict.fromkeys(how for _, how in due):
        axes = tuple(axis for axis, reduction in due if reduction == how)
        left = tuple(item for item in layout.partial if item[0] not in axes)
        layout = replace(layout, partial=left)
        steps.append((Movement(MovementKind.ALL_REDUCE, axes, reduction=how), layout))
    inference = _Inference.of(layout, target, all_to_all=all_to_all)
    inference.run()
    steps += [(movement, replace(layout, dims=dims)) for movement, dims in inference.steps]
    return tuple(steps)


@dataclass
class _Inference:
    """The units of each dim now and in the end, and the movements taken so far."""

    now: list[list[Unit]]
    goal: list[list[Unit]]
    all_to_all: bool
    steps: list[tuple[Movement, tuple[Unit, ...]]] = field(default_factory=list)

    @classmethod
    def of(cls, layout: Layout, target: Layout, *, all_to_all: bool) -> _Inference:
        inside = _followers(layout, target)
        return cls(
            [_units(dim, inside) for dim in layout.dims],
            [_units(dim, inside) for dim in target.dims],
            all_to_all,
        )

    def run(self) -> None:
        """Takes steps until every dim is as it should be."""
        while self._open():
            taken = len(self.steps)
            before = -1
            while before != len(self.steps):
                before = len(self.steps)
                self._split()
                self._permute()
            for dim in self._open():
                unit = self._extra(dim)
                if unit is not None and all(unit not in units for units in self.goal):
                    self._gather(dim)
            if taken == len(self.steps):
                self._gather(next(dim for dim in self._open() if self._extra(dim) is not None))

    def _open(self) -> list[int]:
        return [dim for dim, units in enumerate(self.now) if units != self.goal[dim]]

    def _extra(self, dim: int) -> Unit | None:
        """The innermost unit of a dim that has to go; None if there is none."""
        now, goal = self.now[dim], self.goal[dim]
        return None if now == goal[: len(now)] else now[-1]

    def _wanted(self, dim: int) -> Unit | None:
        """The next unit that a dim wants; None if something has to go before."""
        now, goal = self.now[dim], self.goal[dim]
        return goal[len(now)] if now == goal[: len(now)] and len(now) < len(goal) else None

    def _split(self) -> None:
        for dim in self._open():
            unit = self._wanted(dim)
            if unit is not None and not any(unit in units for units in self.now):
                self._sliced(dim, unit)

    def _permute(self) -> None:
        changed = True
        while changed:
            changed = False
            for dim in self._open():
                unit = self._wanted(dim)
                holder = next((other for other in self._open() if self._extra(other) == unit), None)
                if unit is None or holder is None:
                    continue
                changed = True
                if self.all_to_all:
                    self.now[holder].pop()
                    self.now[dim].append(unit)
                    self._take(Movement(MovementKind.ALL_TO_ALL, unit, holder, dim))
                else:
                    self._gather(holder)
                    self._sliced(dim, unit)

    def _gather(self, dim: int) -> None:
        unit = self.now[dim].pop()
        self._take(Movement(MovementKind.ALL_GATHER, unit, dim))

    def _sliced(self, dim: int, unit: Unit) -> None:
        self.now[dim].append(unit)
        self._take(Movement(MovementKind.SLICE, unit, dim))

    def _take(self, movement: Movement) -> None:
        dims = tuple(tuple(axis for unit in units for axis in unit) for units in self.now)
        self.steps.append((movement, dims))


def _followers(*layouts: Layout) -> dict[str, str]:
    """Axis -> the one that stands right inside it wherever either of them stands."""
    after: dict[str, set[str]] = {}
    before: dict[str, set[str]] = {}
    for layout in layouts:
        for dim in layout.dims:
            for outer, inner in zip(("", *dim), (*dim, ""), strict=True):
                after.setdefault(outer, set()).add(inner)
                before.setdefault(inner, set()).add(outer)
    return {
        outer: inner
        for outer, (inner, *rest) in ((axis, tuple(followers)) for axis, followers in after.items())
        if outer and inner and not rest and before[inner] == {outer}
    }


def _units(axes: Sequence[str], inside: dict[str, str]) -> list[Unit]:
    units: list[list[str]] = []
    for axis in axes:
        if units and inside.get(units[-1][-1]) == axis:
            units[-1].append(axis)
        else:
            units.append([axis])
    return [tuple(unit) for unit in units]
