"""Where axes stand in a mesh, and axes that data parallelism is shared with."""

from __future__ import annotations

from collections.abc import Iterator

from simcluster.search.space.plan_choice import DATA, PIPELINE, TENSOR, PlanChoice

_ORDER = (PIPELINE, DATA, "expert", "context", TENSOR)
"""Axes from the outermost to the innermost, where the scenario has none: what talks most lies nearest."""


def from_data(choice: PlanChoice, axis: str, size: int) -> Iterator[PlanChoice]:
    """The plan with an axis of this size, at the cost of data parallelism; none if that does not divide."""
    whole = choice.size(DATA) * choice.size(axis)
    if whole % size == 0:
        sizes = {**dict(choice.mesh), DATA: whole // size, axis: size}
        yield choice.with_mesh(in_order(sizes, dict(choice.mesh)))


def in_order(sizes: dict[str, int], present: dict[str, int]) -> dict[str, int]:
    """The axes as the scenario orders those that it has, others where they usually are."""
    usual = [axis for axis in _ORDER if axis in sizes]
    if [axis for axis in present if axis in _ORDER] == [axis for axis in usual if axis in present]:
        rest = [axis for axis in sizes if axis not in _ORDER]
        return {axis: sizes[axis] for axis in (*rest, *usual)}
    new = [axis for axis in usual if axis not in present]
    return {axis: sizes[axis] for axis in (*present, *new)}
