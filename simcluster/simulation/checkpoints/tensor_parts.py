"""Parts of tensors on arrays: whole tensors from the parts of ranks, and the parts that another plan has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

import numpy as np

from simcluster.errors import ScenarioError
from simcluster.job import CheckpointContent, SavedTensor, SourceSlices
from simcluster.layout import Layout, Mesh
from simcluster.model import Array
from simcluster.values import local_part


@lru_cache(maxsize=2048)
def _places(layout: Layout, shape: tuple[int, ...], mesh: Mesh, part: int, rank: int) -> Array:
    """The place in the whole tensor, laid flat, of every element of a rank's part; -1 for padding."""
    whole = np.arange(1, int(np.prod(shape, dtype=np.int64)) + 1).reshape(shape)
    return local_part(whole, layout, mesh, rank) - 1


def places_of(tensor: SavedTensor, mesh: Mesh, rank: int) -> Array:
    """The same for a tensor of a checkpoint; ranks with one part share the array."""
    slices = tensor.slices(mesh)
    part = int(slices.part_of_rank[rank])
    first = int(np.argmax(slices.part_of_rank == part))
    return _places(tensor.layout, tensor.shape, mesh, part, first)


def whole_tensors(
    content: CheckpointContent, ranks: Iterable[int], read: Callable[[int], Mapping[str, Array]]
) -> dict[str, tuple[Array, Array]]:
    """What the files of some ranks together have of every tensor: its elements, and which of them are there.

    Both are laid flat; ``read`` gives the parts of a rank.
    """
    values_of: dict[str, tuple[Array, Array]] = {}
    for rank in ranks:
        parts = read(rank)
        for tensor in content.tensors:
            if rank not in tensor.ranks:
                continue
            part = parts[tensor.name]
            if tensor.name not in values_of:
                size = int(np.prod(tensor.shape, dtype=np.int64))
                values_of[tensor.name] = np.zeros(size, dtype=part.dtype), np.zeros(size, dtype=bool)
            values, there = values_of[tensor.name]
            places = places_of(tensor, content.mesh, rank)
            real = places >= 0
            values[places[real]], there[places[real]] = part[real], True
    return values_of


def merged_tensors(
    content: CheckpointContent, read: Callable[[int], Mapping[str, Array]]
) -> dict[str, Array]:
    """All tensors whole, in their shapes, from the parts of all ranks."""
    shapes = {tensor.name: tensor.shape for tensor in content.tensors}
    values_of = whole_tensors(content, range(content.mesh.num_ranks), read)
    return {name: values.reshape(shapes[name]) for name, (values, _) in values_of.items()}


def fitted(array: Array, shape: tuple[int, ...], *, fill: bool = False) -> Array:
    """An array cut to a shape, or with zeros behind it; with ``fill`` ones."""
    if array.shape == shape:
        return array
    made = np.full(shape, fill, dtype=array.dtype)
    common = tuple(slice(min(own, wanted)) for own, wanted in zip(array.shape, shape, strict=True))
    made[common] = array[common]
    return made


def parts_of_rank(
    slices: SourceSlices, rank: int, read: Callable[[int], Mapping[str, Array]], *, merged: bool = False
) -> dict[str, Array]:
    """What a rank of the target holds, from the files of the source ranks that it needs and no others.

    ``merged``: what is read are tensors whole. Padding is zero. ScenarioError if elements are missing.
    """
    if merged:
        there = read(0)
        values_of = {
            name: (array.reshape(-1), np.ones(array.size, dtype=bool)) for name, array in there.items()
        }
    else:
        values_of = whole_tensors(slices.source, slices.rank_list(rank), read)
    parts: dict[str, Array] = {}
    for tensor in slices.target.tensors:
        if rank not in tensor.ranks:
            continue
        places = places_of(tensor, slices.target.mesh, rank)
        given = slices.source.source_of(tensor)
        assert given is not None, "what is missing was refused"
        values, there_of = values_of[given.name]
        if given.shape != tensor.shape:
            # What only pads the vocabulary is in no file.
            outside = fitted(np.zeros(given.shape, dtype=bool), tensor.shape, fill=True)
            values = fitted(values.reshape(given.shape), tensor.shape).reshape(-1)
            there_of = fitted(there_of.reshape(given.shape), tensor.shape).reshape(-1)
            there_of = there_of | outside.reshape(-1)
        real = places >= 0
        lacking = int((~there_of[places[real]]).sum())
        if lacking:
            raise ScenarioError(f"rank {rank} lacks {lacking:,} elements of {tensor.name}")
        parts[tensor.name] = np.where(real, values[places], 0).astype(values.dtype)
    return parts
