"""How large the small form of a plan is: its mesh, its micro-batches and the layers of its stages."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from simcluster.errors import PlanError
from simcluster.layout import Mesh
from simcluster.plan import MicroBatches, Schedule

MOST_RANKS = 64


def small_mesh(sizes: Mapping[str, int], stage_axis: str, least_stages: int = 3) -> dict[str, int]:
    """The axes of the small plan; ``least_stages`` stay of a pipeline that has as many.

    The largest axis is divided by its smallest factor, down to 2, until at most 64 ranks are left.
    """
    small = dict(sizes)
    while math.prod(small.values()) > MOST_RANKS:
        steps = {
            axis: _next_size(size, least_stages if axis == stage_axis else 2) for axis, size in small.items()
        }
        able = [axis for axis, size in small.items() if steps[axis] < size]
        if not able:
            break
        largest = max(able, key=lambda axis: small[axis])
        small[largest] = steps[largest]
    return small


def _next_size(size: int, least: int) -> int:
    """A size divided by its smallest factor, but not below ``least``."""
    if size <= least:
        return size
    factor = next(number for number in range(2, size + 1) if size % number == 0)
    return max(size // factor, least)


def small_batches(before: MicroBatches, mesh: Mesh, num_stages: int) -> MicroBatches:
    """The micro-batches of the small plan.

    Where they differ, one coordinate of each number is kept first, then others in order; the numbers keep
    their order, the largest becomes at most one more than stages, or as many as there are different ones.
    """
    if not before.axis:
        return MicroBatches("", (min(before.most, num_stages + 1),))
    given, size = before.by_coordinate, mesh.size(before.axis)
    firsts = [given.index(count) for count in before.counts]
    rest = [coordinate for coordinate in range(len(given)) if coordinate not in firsts]
    kept = [given[coordinate] for coordinate in sorted([*firsts, *rest][:size])]
    different = sorted(set(kept))
    ceiling = num_stages + 1 - len(different)
    small = {count: max(place, min(count, ceiling + place)) for place, count in enumerate(different, start=1)}
    return MicroBatches(before.axis, tuple(small[count] for count in kept))


def runnable_batches(batches: MicroBatches, schedule: Schedule, num_stages: int, most: int) -> MicroBatches:
    """Micro-batches that a schedule accepts, still in their order: each number or the next that it does.

    Some accept whole rounds only; one that is written out, only the ``most`` that it is written for.
    """
    accepted: dict[int, int] = {}
    for count in sorted(set(batches.by_coordinate)):
        least = max([count, *(taken + 1 for taken in accepted.values())])
        tried = (*range(least, least + num_stages), most)
        accepted[count] = next((number for number in tried if _runs(schedule, num_stages, number)), count)
    return replace(batches, by_coordinate=tuple(accepted[count] for count in batches.by_coordinate))


def _runs(schedule: Schedule, num_stages: int, num_micro_batches: int) -> bool:
    try:
        schedule.timetable(num_stages, num_micro_batches)
    except PlanError:
        return False
    return True


def small_layers(layers: tuple[int, ...], num_stages: int) -> tuple[int, ...]:
    """At most two layers a stage, or three where a stage had more than the smallest one."""
    ends = (*layers[: num_stages - 1], layers[-1]) if num_stages > 1 else layers
    smallest = min(ends)
    return tuple(min(count, min(smallest, 2) + (count > smallest)) for count in ends)
