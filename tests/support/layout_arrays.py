"""Random meshes, layouts and tensors, and what every rank holds of a tensor, by plain index arithmetic."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from hypothesis import strategies as st

from simcluster.layout import Layout, Mesh, MovementKind
from simcluster.values.exchange import exchange_arrays, slice_array

AXES = ("a", "b", "c", "d")


@dataclass(frozen=True)
class Tensor:
    """A whole array and the layouts it is to have."""

    mesh: Mesh
    whole: np.ndarray
    layouts: tuple[Layout, ...]


@st.composite
def meshes(draw, most: int = 4):
    """One to ``most`` axes of size 2 or 3."""
    sizes = draw(st.lists(st.sampled_from([2, 3]), min_size=1, max_size=most))
    return Mesh.of(dict(zip(AXES, sizes, strict=False)))


@st.composite
def layouts(draw, mesh: Mesh, num_dims: int, *, partial="any", flat=True):
    """Every axis splits a dim, lies flat, is partial or holds replicas; the axes of a dim in any order."""
    dims: list[list[str]] = [[] for _ in range(num_dims)]
    due: dict[str, str] = {}
    lying: list[str] = []
    how = draw(st.sampled_from(["sum", "sum", "max", "min"]))
    places = ["replicas", *range(num_dims)]
    places += ["flat"] if flat else []
    places += ["partial"] if partial else []
    for axis in draw(st.permutations(mesh.names)):
        place = draw(st.sampled_from(places))
        if place == "flat":
            lying.append(axis)
        elif place == "partial":
            due[axis] = how
        elif place != "replicas":
            dims[place].append(axis)
    return Layout(tuple(map(tuple, dims)), tuple(sorted(due.items())), tuple(lying))


@st.composite
def tensors(
    draw, count: int = 1, *, most_axes: int = 4, partial_last: bool = False, uneven: bool = False, **options
):
    """A tensor that ``count`` layouts divide, or need not if ``uneven``; the last layout is never partial
    unless told otherwise."""
    mesh = draw(meshes(most_axes))
    num_dims = draw(st.integers(1, 4))
    found = [
        draw(
            layouts(
                mesh,
                num_dims,
                **(options if index < count - 1 or partial_last else options | {"partial": ""}),
            )
        )
        for index in range(count)
    ]
    shape = [
        draw(st.integers(1, 7))
        if uneven
        else draw(st.integers(1, 2)) * math.lcm(*(mesh.product(layout.dims[dim]) for layout in found))
        for dim in range(num_dims)
    ]
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    return Tensor(mesh, rng.standard_normal(shape), tuple(found))


def divides(shape, layout: Layout, mesh: Mesh) -> bool:
    """Whether every dim divides over its axes."""
    return all(size % mesh.product(axes) == 0 for size, axes in zip(shape, layout.dims, strict=True))


@cache
def where(rank: int, mesh: Mesh) -> dict[str, int]:
    """The coordinates of a rank, row-major."""
    found = {}
    for axis, size in reversed(mesh.axes):
        rank, found[axis] = divmod(rank, size)
    return found


@cache
def position(rank: int, axes, mesh: Mesh) -> int:
    """The place of a rank in its group over ``axes``."""
    place = 0
    for axis in axes:
        place = place * mesh.sizes[axis] + where(rank, mesh)[axis]
    return place


def part(whole, layout: Layout, mesh: Mesh, rank: int):
    """What a rank holds of a reduced tensor; every axis in turn cuts what is padded with zeros to do so."""
    for dim, axes in enumerate(layout.dims):
        for axis in axes:
            margins = [(0, 0)] * whole.ndim
            margins[dim] = (0, -whole.shape[dim] % mesh.sizes[axis])
            whole = np.split(np.pad(whole, margins), mesh.sizes[axis], axis=dim)[where(rank, mesh)[axis]]
    if not layout.flat:
        return whole
    ways = mesh.product(layout.flat)
    run = -(-whole.size // ways)
    padded = np.concatenate([whole.ravel(), np.zeros(run * ways - whole.size)])
    return padded.reshape(ways, run)[position(rank, layout.flat, mesh)]


@cache
def mates(rank: int, axes, mesh: Mesh) -> list[int]:
    """The ranks that differ from a rank along ``axes`` only."""
    mine = where(rank, mesh)
    return [
        other
        for other in range(mesh.num_ranks)
        if all(value == mine[axis] for axis, value in where(other, mesh).items() if axis not in axes)
    ]


def spread(tensor: Tensor, layout: Layout):
    """What every rank holds: its part, or values that become it once they are reduced; replicas are equal."""
    mesh = tensor.mesh
    rng = np.random.default_rng(1)
    found = [part(tensor.whole, layout, mesh, rank) for rank in range(mesh.num_ranks)]
    if not layout.partial:
        return found
    noise: dict[tuple, np.ndarray] = {}
    due = layout.partial_axes
    replicas = [axis for axis in mesh.names if axis not in layout.axes]
    how = layout.partial[0][1]
    summed = how == "sum"
    sign = -1 if how == "max" else 1
    for rank, mine in enumerate(found):
        place = position(rank, due, mesh)
        if place:
            key = tuple(value for axis, value in where(rank, mesh).items() if axis not in replicas)
            if key not in noise:
                noise[key] = (
                    rng.standard_normal(mine.shape) if summed else mine + sign * rng.random(mine.shape)
                )
    for rank, mine in enumerate(found):
        others = [other for other in mates(rank, due, mesh) if position(other, due, mesh)]
        keys = {
            other: tuple(value for axis, value in where(other, mesh).items() if axis not in replicas)
            for other in (*others, rank)
        }
        if position(rank, due, mesh):
            found[rank] = noise[keys[rank]]
        elif summed:
            found[rank] = mine - sum(noise[keys[other]] for other in others)
    return found


def moved(movement, reached: Layout, arrays, tensor: Tensor):
    """What every rank holds after a movement."""
    mesh = tensor.mesh
    if movement.kind is MovementKind.SLICE:
        return [slice_array(movement, array, mesh, rank) for rank, array in enumerate(arrays)]
    shape = reached.local_shape(tensor.whole.shape, mesh)
    found = [None] * mesh.num_ranks
    for group in mesh.groups(movement.axes):
        sizes = [mesh.sizes[axis] for axis in movement.axes]
        results = exchange_arrays(movement, [arrays[rank] for rank in group], shape, sizes)
        for rank, result in zip(group, results, strict=True):
            found[rank] = result
    return found


def check(arrays, layout: Layout, tensor: Tensor) -> None:
    """Every rank holds exactly its part, reductions that are still due done."""
    mesh = tensor.mesh
    hows = {how for _, how in layout.partial}
    reduction = {"max": np.maximum, "min": np.minimum}.get(next(iter(hows), "sum"), np.add)
    scale = max(1.0, np.abs(tensor.whole).max(initial=0.0))
    for rank in range(mesh.num_ranks):
        want = part(tensor.whole, layout, mesh, rank)
        have = reduction.reduce([arrays[other] for other in mates(rank, layout.partial_axes, mesh)])
        assert have.shape == want.shape, (
            f"rank {rank} of {mesh} holds {have.shape} of {layout}, not {want.shape}"
        )
        error = np.abs(have - want).max(initial=0.0)
        assert error <= 1e-10 * scale, f"rank {rank} of {mesh} holds the wrong part of {layout}"
        assert arrays[rank].shape == layout.local_shape(tensor.whole.shape, mesh)
