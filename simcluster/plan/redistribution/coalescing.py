"""Redistributions of many tensors that need the same steps, as one flat buffer would take them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Layout, Mesh, Movement
from simcluster.model import TensorType
from simcluster.plan.redistribution.redistribution_planner import RedistributionPlanner


@dataclass(frozen=True, slots=True)
class Redistribution:
    """A tensor, its layout, and the one that it needs."""

    type: TensorType
    """Its logical type."""
    start: Layout
    """Its layout."""
    target: Layout
    """The layout that it needs."""


@dataclass(frozen=True, slots=True)
class RedistributionStep:
    """One movement of one tensor."""

    value: str
    """The tensor."""
    movement: Movement
    """The movement."""
    layout: Layout
    """The layout after it."""
    last: bool
    """Whether it is the tensor's last."""


def coalesce_redistributions(
    journeys: Mapping[str, Redistribution], mesh: Mesh, router: RedistributionPlanner
) -> Iterator[RedistributionStep]:
    """The steps of every tensor, in step for tensors that share start, target and format.

    Only the first dim and the flat buffer are divided or joined, the other dims stay as they are; so the sum
    of the sizes decides which steps are cheapest: one decision per bucket.
    """
    buckets: dict[tuple[object, ...], list[str]] = {}
    for value, journey in journeys.items():
        _, left, wanted = _rows(journey)
        start, target = journey.start, journey.target
        key = (start.partial, start.flat, target.flat, left, wanted, journey.type.dtype)
        buckets.setdefault(key, []).append(value)
    for bucket in buckets.values():
        first = journeys[bucket[0]]
        _, left, wanted = _rows(first)
        start = replace(first.start, dims=(left,))
        target = replace(first.target, dims=(wanted,))
        elements = sum(_elements(journeys[value], mesh) for value in bucket)
        path = router.path(TensorType((elements,), first.type.dtype), start, target)
        for index, (movement, reached) in enumerate(path):
            for value in bucket:
                begun = journeys[value].start.dims
                dims = (_rows(journeys[value])[0] + reached.dims[0], *begun[1:]) if begun else ()
                layout = Layout(dims, reached.partial, reached.flat)
                yield RedistributionStep(value, movement, layout, index == len(path) - 1)


def _rows(each: Redistribution) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The axes on the first dim: those of both layouts, what the start and what the target has besides."""
    start = each.start.dims[0] if each.start.dims else ()
    target = each.target.dims[0] if each.target.dims else ()
    shared = min(len(start), len(target))
    return start[:shared], start[shared:], target[shared:]


def _elements(each: Redistribution, mesh: Mesh) -> int:
    """Elements of the buffer that the travelling axes cut."""
    dims = (_rows(each)[0], *each.start.dims[1:]) if each.start.dims else ()
    return math.prod(Layout(dims).local_shape(each.type.shape, mesh))
