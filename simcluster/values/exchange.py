"""What movements do to arrays, and which part of a whole tensor a rank holds."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from simcluster.layout import FLAT, Kind, Layout, Mesh, Movement
from simcluster.model import Array


def local_part(whole: Array, layout: Layout, mesh: Mesh, rank: int) -> Array:
    """The part of ``whole`` that ``layout`` gives ``rank``; flat layouts are padded with zeros."""
    part = whole[layout.slices(whole.shape, mesh, rank)]
    if not layout.flat:
        return np.array(part)
    return _flat_run(part, mesh.index(rank, layout.flat), mesh.product(layout.flat))


def exchange(movement: Movement, arrays: Sequence[Array], shape: tuple[int, ...]) -> list[Array]:
    """What every member of a group ends with; ``shape`` is the local shape of the results."""
    count = len(arrays)
    if movement.kind is Kind.ALL_REDUCE:
        return [_reduced(arrays, movement.reduction)] * count
    if movement.kind is Kind.REDUCE_SCATTER:
        total = _reduced(arrays, movement.reduction)
        return [_nth(total, index, count, movement.dim) for index in range(count)]
    if movement.kind is Kind.ALL_GATHER:
        return [_gathered(arrays, movement.dim, shape)] * count
    if movement.kind is Kind.ALL_TO_ALL:
        parts = [[_nth(array, index, count, movement.to_dim) for array in arrays] for index in range(count)]
        return [np.concatenate(part, axis=movement.dim) for part in parts]
    if movement.kind is Kind.ROTATE:
        return [arrays[index - 1] for index in range(count)]
    if movement.kind in (Kind.NEIGHBOR_EXCHANGE, Kind.SHIFT):
        grows = sum(movement.to_halo) > sum(movement.halo)
        return _with_halos(movement, arrays) if grows else _halos_added(movement, arrays)
    raise ValueError(f"a {movement.kind} is no exchange")


def _with_halos(movement: Movement, arrays: Sequence[Array]) -> list[Array]:
    """Every part with more of its neighbours' elements around it, ``fill`` beyond the first and the last."""
    dim, (before, after), (more_before, more_after) = movement.dim, movement.halo, movement.to_halo
    own = arrays[0].shape[dim] - before - after
    found = []
    for index, array in enumerate(arrays):
        left, right = arrays[max(index - 1, 0)], arrays[min(index + 1, len(arrays) - 1)]
        head = _cut(left, dim, before + own - more_before, own)
        tail = _cut(right, dim, before + after, before + more_after)
        if index == 0:
            head = np.full_like(head, movement.fill)
        if index == len(arrays) - 1:
            tail = np.full_like(tail, movement.fill)
        found.append(np.concatenate([head, array, tail], axis=dim))
    return found


def _halos_added(movement: Movement, arrays: Sequence[Array]) -> list[Array]:
    """Every part with the outer terms that its neighbours had for it; beyond the ends they are nobody's."""
    dim, (before, after), (less_before, less_after) = movement.dim, movement.halo, movement.to_halo
    whole = arrays[0].shape[dim]
    own = whole - before - after
    kept = slice(before - less_before, whole - (after - less_after))
    found = [_cut(array, dim, kept.start, kept.stop) for array in arrays]
    for index, array in enumerate(arrays):
        if index > 0:
            # The first elements of a part's halo are among the last that the part before it owns.
            place = slice(less_before + own - before, own)
            found[index - 1][_along(dim, place)] += _cut(array, dim, 0, before - less_before)
        if index < len(arrays) - 1:
            place = slice(less_before + less_after, less_before + after)
            found[index + 1][_along(dim, place)] += _cut(array, dim, whole - (after - less_after), whole)
    return found


def _cut(array: Array, dim: int, start: int, stop: int) -> Array:
    """A copy of elements ``start`` up to ``stop`` along a dim."""
    return np.array(array[_along(dim, slice(start, stop))])


def _along(dim: int, part: slice) -> tuple[slice, ...]:
    return (slice(None),) * dim + (part,)


def sliced(movement: Movement, array: Array, mesh: Mesh, rank: int) -> Array:
    """The part of an array that a rank keeps in a slice; all of it in a copy."""
    if movement.kind is Kind.COPY:
        return array.copy()
    return _nth(array, mesh.index(rank, movement.axes), mesh.product(movement.axes), movement.dim)


def _reduced(arrays: Sequence[Array], reduction: str) -> Array:
    if reduction != "sum":
        combine = {"max": np.maximum, "min": np.minimum}[reduction]
        return np.asarray(combine.reduce(list(arrays)))
    return np.asarray(sum(arrays[1:], arrays[0]))


def _nth(array: Array, index: int, count: int, dim: int) -> Array:
    """Part ``index`` of ``count`` along a dim, or of the flat buffer."""
    if dim == FLAT:
        return _flat_run(array, index, count)
    return np.array(np.split(array, count, axis=dim)[index])


def _flat_run(array: Array, index: int, count: int) -> Array:
    length = -(-array.size // count)
    padded = np.zeros(length * count, dtype=array.dtype)
    padded[: array.size] = array.ravel()
    return padded[index * length : (index + 1) * length]


def _gathered(arrays: Sequence[Array], dim: int, shape: tuple[int, ...]) -> Array:
    if dim == FLAT:
        return np.concatenate(list(arrays))[: math.prod(shape)].reshape(shape)
    return np.concatenate(list(arrays), axis=dim)
