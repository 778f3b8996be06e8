"""Movements between layouts on arrays, and the part of a tensor that a rank holds."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from simcluster.layout import FLAT, Layout, Mesh, Movement, MovementKind
from simcluster.model import Array

_COMBINED = {"max": np.maximum, "min": np.minimum, "prod": np.multiply, "logsumexp": np.logaddexp}


def local_part(whole: Array, layout: Layout, mesh: Mesh, rank: int) -> Array:
    """The part of ``whole`` that ``layout`` gives ``rank``, padded with zeros to the local shape."""
    part = whole[layout.slices(whole.shape, mesh, rank)] if any(layout.dims) else whole
    if layout.padded(whole.shape, mesh):
        kept = np.zeros(Layout(layout.dims).local_shape(whole.shape, mesh), dtype=whole.dtype)
        kept[tuple(map(slice, part.shape))] = part
        part = kept
    if not layout.flat:
        return np.array(part)
    return _flat_run(part, mesh.index(rank, layout.flat), mesh.product(layout.flat))


def without_padding(part: Array, layout: Layout, shape: Sequence[int], mesh: Mesh, rank: int) -> Array:
    """A rank's part of a tensor of this whole shape with zeros for what is padding."""
    if layout.flat or not layout.padded(shape, mesh):
        return part
    kept = tuple(slice(span.stop - span.start) for span in layout.slices(shape, mesh, rank))
    cleared = np.zeros_like(part)
    cleared[kept] = part[kept]
    return cleared


def route_arrays(movement: Movement, given: Sequence[Sequence[Array]]) -> list[list[Array]]:
    """The arrays that every member of a group receives along the routes of a movement, in its own order."""
    received: list[dict[int, Array]] = [{} for _ in given]
    for route in movement.routes:
        received[route.receiver][route.got] = given[route.sender][route.given]
    return [[arrays[place] for place in sorted(arrays)] for arrays in received]


def exchange_arrays(
    movement: Movement, arrays: Sequence[Array], shape: tuple[int, ...], sizes: Sequence[int] = ()
) -> list[Array]:
    """The result of a collective for every member of a group; ``shape`` is that of the local results.

    ``sizes`` are those of the movement's axes, outer first; without them it is one axis of all members. Of a
    reduce, those that are not its root end with zeros.
    """
    count, sizes = len(arrays), sizes or (len(arrays),)
    if movement.kind is MovementKind.ALL_REDUCE:
        return [_reduced(arrays, movement.reduction)] * count
    if movement.kind is MovementKind.REDUCE_SCATTER:
        total = _reduced(arrays, movement.reduction)
        return [_nth(total, index, sizes, movement.dim) for index in range(count)]
    if movement.kind is MovementKind.ALL_GATHER:
        return [_gathered(arrays, movement.dim, shape, sizes)] * count
    if movement.kind is MovementKind.ALL_TO_ALL:
        parts = [[_nth(array, index, sizes, movement.to_dim) for array in arrays] for index in range(count)]
        return [_gathered(part, movement.dim, shape, sizes) for part in parts]
    if movement.kind is MovementKind.ROTATE:
        return [arrays[index - 1] for index in range(count)]
    if movement.kind in (MovementKind.NEIGHBOR_EXCHANGE, MovementKind.SHIFT):
        grows = sum(movement.to_halo) > sum(movement.halo)
        return _with_halos(movement, arrays) if grows else _halos_added(movement, arrays)
    if movement.kind is MovementKind.BROADCAST:
        return [arrays[0]] * count
    if movement.kind is MovementKind.REDUCE:
        total = _reduced(arrays, movement.reduction)
        return [total, *(np.zeros_like(total) for _ in arrays[1:])]
    raise ValueError(f"a {movement.kind} is not an exchange")


def _with_halos(movement: Movement, arrays: Sequence[Array]) -> list[Array]:
    """Every part with more of its neighbours' elements around it, ``fill`` beyond the first and the last."""
    dim, (before, after), (more_before, more_after) = movement.dim, movement.halo, movement.to_halo
    own = arrays[0].shape[dim] - before - after
    results = []
    for index, array in enumerate(arrays):
        left, right = arrays[max(index - 1, 0)], arrays[min(index + 1, len(arrays) - 1)]
        head = _cut(left, dim, before + own - more_before, own)
        tail = _cut(right, dim, before + after, before + more_after)
        if index == 0:
            head = np.full_like(head, movement.fill)
        if index == len(arrays) - 1:
            tail = np.full_like(tail, movement.fill)
        results.append(np.concatenate([head, array, tail], axis=dim))
    return results


def _halos_added(movement: Movement, arrays: Sequence[Array]) -> list[Array]:
    """Every part with the outer terms that its neighbours had for it; beyond the ends they are nobody's."""
    dim, (before, after), (less_before, less_after) = movement.dim, movement.halo, movement.to_halo
    whole = arrays[0].shape[dim]
    own = whole - before - after
    kept = slice(before - less_before, whole - (after - less_after))
    results = [_cut(array, dim, kept.start, kept.stop) for array in arrays]
    for index, array in enumerate(arrays):
        if index > 0:
            # The first elements of a part's halo are among the last that the part before it owns.
            place = slice(less_before + own - before, own)
            results[index - 1][_along(dim, place)] += _cut(array, dim, 0, before - less_before)
        if index < len(arrays) - 1:
            place = slice(less_before + less_after, less_before + after)
            results[index + 1][_along(dim, place)] += _cut(array, dim, whole - (after - less_after), whole)
    return results


def _cut(array: Array, dim: int, start: int, stop: int) -> Array:
    """A copy of elements ``start`` up to ``stop`` along a dim."""
    return np.array(array[_along(dim, slice(start, stop))])


def _along(dim: int, part: slice) -> tuple[slice, ...]:
    return (slice(None),) * dim + (part,)


def slice_array(movement: Movement, array: Array, mesh: Mesh, rank: int) -> Array:
    """The part of an array that a rank keeps in a slice; all of it in a copy."""
    if movement.kind is MovementKind.COPY:
        return array.copy()
    sizes = [mesh.size(axis) for axis in movement.axes]
    return _nth(array, mesh.index(rank, movement.axes), sizes, movement.dim)


def _reduced(arrays: Sequence[Array], reduction: str) -> Array:
    if reduction != "sum":
        combine = _COMBINED[reduction]
        return np.asarray(combine.reduce(list(arrays)))
    return np.asarray(sum(arrays[1:], arrays[0]))


def _nth(array: Array, index: int, sizes: Sequence[int], dim: int) -> Array:
    """Part ``index`` along a dim, which axes of these sizes split in turn, or of the flat buffer.

    What does not divide is padded with zeros.
    """
    if dim == FLAT:
        return _flat_run(array, index, math.prod(sizes))
    for size, place in zip(sizes, np.unravel_index(index, tuple(sizes)), strict=True):
        length = -(-array.shape[dim] // size)
        part = _cut(array, dim, int(place) * length, (int(place) + 1) * length)
        lacking = length - part.shape[dim]
        if lacking:
            shape = (*part.shape[:dim], lacking, *part.shape[dim + 1 :])
            part = np.concatenate([part, np.zeros(shape, dtype=part.dtype)], axis=dim)
        array = part
    return array


def _flat_run(array: Array, index: int, count: int) -> Array:
    length = -(-array.size // count)
    padded = np.zeros(length * count, dtype=array.dtype)
    padded[: array.size] = array.ravel()
    return padded[index * length : (index + 1) * length]


def _gathered(arrays: Sequence[Array], dim: int, shape: tuple[int, ...], sizes: Sequence[int]) -> Array:
    """All parts side by side, without what was padding; along a dim axis by axis, as they split it."""
    if dim == FLAT:
        return np.concatenate(list(arrays))[: math.prod(shape)].reshape(shape)
    outer, *inner = sizes
    if inner:
        count = len(arrays) // outer
        part = (*shape[:dim], -(-shape[dim] // outer), *shape[dim + 1 :])
        arrays = [
            _gathered(arrays[first : first + count], dim, part, inner)
            for first in range(0, len(arrays), count)
        ]
    joined = np.concatenate(list(arrays), axis=dim)
    return joined if joined.shape[dim] == shape[dim] else _cut(joined, dim, 0, shape[dim])
