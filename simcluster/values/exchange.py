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
    raise ValueError(f"a {movement.kind} is no exchange")


def sliced(movement: Movement, array: Array, mesh: Mesh, rank: int) -> Array:
    """The part of an array that a rank keeps in a slice."""
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
