"""Which elements of a tensor the ranks of a layout hold, as boxes, and how many two layouts have in common.

A rank's part of a tensor is a box, or a run of a box laid flat, and that is a few boxes again: the rest of a
row, whole rows, the beginning of another. Padding is in none of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Layout, Mesh
from simcluster.number_arrays import Ints


@dataclass(frozen=True, slots=True, eq=False)
class TensorSlices:
    """The different parts of a tensor that a layout makes.

    ``boxes`` [boxes, dims, 2] are first and behind the last element along each dim, ``part`` [boxes] whose
    box it is; ``part_of_rank`` [ranks] is the part of every rank of the mesh, ``elements`` [parts] how many
    elements it has.
    """

    boxes: Ints
    part: Ints
    part_of_rank: Ints
    elements: Ints

    @property
    def num_parts(self) -> int:
        """Different parts."""
        return len(self.elements)


@lru_cache(maxsize=4096)
def slices_of(layout: Layout, shape: tuple[int, ...], mesh: Mesh) -> TensorSlices:
    """The parts of a tensor of this whole shape; ranks that hold the same have one part together."""
    if not shape:
        shape, layout = (1,), Layout(((),), flat=layout.flat)
    part_of_rank, first = _parts(layout, mesh)
    starts, held, local = _box(layout, shape, mesh, first)
    if layout.flat:
        length = -(-math.prod(local) // mesh.product(layout.flat))
        begin = _index(layout.flat, mesh)[first] * length
        runs = _flat_boxes(begin, np.minimum(begin + length, math.prod(local)), local)
    else:
        whole = np.stack([np.zeros_like(held), held], axis=-1)
        runs = [whole]
    boxes_found, parts = [], []
    for run in runs:
        # What is behind the last element that is held is padding.
        cut = np.minimum(run, held[:, :, None])
        full = (cut[:, :, 1] > cut[:, :, 0]).all(axis=1)
        boxes_found.append((cut + starts[:, :, None])[full])
        parts.append(np.flatnonzero(full))
    boxes, part = np.concatenate(boxes_found), np.concatenate(parts)
    elements = np.zeros(len(first), dtype=np.int64)
    np.add.at(elements, part, (boxes[:, :, 1] - boxes[:, :, 0]).prod(axis=1))
    return TensorSlices(boxes, part, part_of_rank, elements)


def common_elements(source: TensorSlices, target: TensorSlices) -> tuple[Ints, Ints, Ints]:
    """The pairs of parts that have elements in common: target part, source part, and how many elements.

    Sorted by target part, then source part; source and target are slices of one tensor.
    """
    own, other = _meeting(target.boxes, source.boxes)
    low = np.maximum(target.boxes[own, :, 0], source.boxes[other, :, 0])
    high = np.minimum(target.boxes[own, :, 1], source.boxes[other, :, 1])
    common = (high - low).clip(min=0).prod(axis=1)
    keys = target.part[own] * source.num_parts + source.part[other]
    pairs, which = np.unique(keys[common > 0], return_inverse=True)
    total = np.zeros(len(pairs), dtype=np.int64)
    np.add.at(total, which, common[common > 0])
    return pairs // source.num_parts, pairs % source.num_parts, total


def _meeting(target: Ints, others: Ints) -> tuple[Ints, Ints]:
    """The pairs of boxes that meet along the first dim."""
    own, own_of = np.unique(target[:, 0], axis=0, return_inverse=True)
    their, their_of = np.unique(others[:, 0], axis=0, return_inverse=True)
    meet = (own[:, None, 0] < their[None, :, 1]) & (their[None, :, 0] < own[:, None, 1])
    one, two = np.nonzero(meet)
    # From pairs of intervals to pairs of boxes: boxes of an interval stand together in these orders.
    own_order, their_order = np.argsort(own_of, kind="stable"), np.argsort(their_of, kind="stable")
    own_count, their_count = np.bincount(own_of, minlength=len(own)), np.bincount(their_of)
    own_first, their_first = np.cumsum(own_count) - own_count, np.cumsum(their_count) - their_count
    times = own_count[one] * their_count[two]
    pair = np.repeat(np.arange(len(one)), times)
    within = np.arange(len(pair)) - np.repeat(np.cumsum(times) - times, times)
    width = their_count[two][pair]
    return (
        own_order[own_first[one][pair] + within // width],
        their_order[their_first[two][pair] + within % width],
    )


def _parts(layout: Layout, mesh: Mesh) -> tuple[Ints, Ints]:
    """The part of every rank, and the first rank of every part."""
    used = tuple(axis for dim in layout.dims for axis in dim) + layout.flat
    index = _index(used, mesh)
    _, first, part = np.unique(index, return_index=True, return_inverse=True)
    return part.astype(np.int64), first.astype(np.int64)


def _index(axes: Sequence[str], mesh: Mesh) -> Ints:
    """The position of every rank in its group over axes, as ``Mesh.index``."""
    position = np.zeros(mesh.num_ranks, dtype=np.int64)
    for axis in axes:
        if axis in mesh.sizes:
            position = position * mesh.size(axis) + mesh.coordinates[:, mesh.names.index(axis)]
    return position


def _box(
    layout: Layout, shape: tuple[int, ...], mesh: Mesh, ranks: Ints
) -> tuple[Ints, Ints, tuple[int, ...]]:
    """Where the boxes of some ranks begin, how much of them is no padding, and their shape with it."""
    starts, held, local = [], [], []
    for size, axes in zip(shape, layout.dims, strict=True):
        first, own, part = np.zeros(len(ranks), np.int64), np.full(len(ranks), size, np.int64), size
        for axis in axes:
            part = -(-part // mesh.size(axis))
            passed = _index((axis,), mesh)[ranks] * part
            first, own = first + passed, np.clip(own - passed, 0, part)
        starts.append(first)
        held.append(own)
        local.append(-(-size // mesh.product(axes)))
    return np.stack(starts, axis=1), np.stack(held, axis=1), tuple(local)


def _flat_boxes(begin: Ints, end: Ints, shape: tuple[int, ...]) -> list[Ints]:
    """The boxes, each [runs, dims, 2], of runs of an array laid flat; those that a run lacks are empty."""
    if len(shape) == 1:
        return [np.stack([begin, end], axis=-1)[:, None, :]]
    stride = max(math.prod(shape[1:]), 1)
    first, rest = np.divmod(begin, stride)
    last, left = np.divmod(end, stride)
    has_head, has_tail = rest > 0, (left > 0) & (last * stride >= begin)
    head_end = np.where(has_head, np.minimum(stride, rest + end - begin), rest)
    made = []
    for row, low, high in ((first, rest, head_end), (last, np.zeros_like(left), np.where(has_tail, left, 0))):
        for inner in _flat_boxes(low, high, shape[1:]):
            rows = np.stack([row, row + 1], axis=-1)[:, None, :]
            made.append(np.concatenate([rows, inner], axis=1))
    rows = np.stack([-(-begin // stride), last], axis=-1)[:, None, :]
    whole = np.stack([np.zeros(len(shape) - 1, np.int64), np.array(shape[1:], np.int64)], axis=-1)
    made.append(np.concatenate([rows, np.broadcast_to(whole, (len(begin), *whole.shape))], axis=1))
    return made
