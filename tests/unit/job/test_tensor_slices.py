"""Boxes of parts against the elements themselves."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.job import CheckpointContent, SavedTensor, SourceSlices, common_elements, slices_of
from simcluster.layout import Layout, Mesh
from simcluster.values import local_part
from simcluster.work import DType


@st.composite
def layouts(draw, mesh, num_dims):
    axes = draw(st.permutations(mesh.names))
    place = [draw(st.integers(-1, num_dims)) for _ in axes]
    dims = tuple(
        tuple(axis for axis, at in zip(axes, place, strict=True) if at == dim) for dim in range(num_dims)
    )
    return Layout(dims, flat=tuple(axis for axis, at in zip(axes, place, strict=True) if at == num_dims))


@st.composite
def meshes(draw, letters):
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    return Mesh.of(dict(zip(letters, sizes, strict=False)))


@st.composite
def cases(draw):
    shape = tuple(draw(st.lists(st.integers(1, 7), min_size=1, max_size=3)))
    one, other = draw(meshes("abc")), draw(meshes("xyz"))
    return shape, (one, draw(layouts(one, len(shape)))), (other, draw(layouts(other, len(shape))))


def elements(shape, mesh, layout, rank):
    """The elements of a rank's part, numbered from 1 in the whole."""
    whole = np.arange(1, int(np.prod(shape)) + 1).reshape(shape)
    return set(local_part(whole, layout, mesh, rank).reshape(-1).tolist()) - {0}


def in_boxes(shape, slices, part):
    """The same of the boxes of a part; no element may be in two."""
    whole = np.arange(1, int(np.prod(shape)) + 1).reshape(shape)
    found = []
    for box in slices.boxes[slices.part == part]:
        found += whole[tuple(slice(*ends) for ends in box.tolist())].reshape(-1).tolist()
    assert len(found) == len(set(found)) == slices.elements[part]
    return set(found)


@settings(max_examples=40)
@given(cases())
def test_boxes_are_the_elements_of_every_rank(case):
    shape, (mesh, layout), _ = case
    slices = slices_of(layout, shape, mesh)
    for rank in range(mesh.num_ranks):
        part = slices.part_of_rank[rank]
        assert in_boxes(shape, slices, part) == elements(shape, mesh, layout, rank)


@settings(max_examples=40)
@given(cases())
def test_common_elements_are_those_of_both(case):
    shape, (mesh, layout), (other, target) = case
    source, wanted = slices_of(layout, shape, mesh), slices_of(target, shape, other)
    mine, theirs, count = common_elements(source, wanted)
    found = dict(zip(zip(mine.tolist(), theirs.tolist(), strict=True), count.tolist(), strict=True))
    for part in range(wanted.num_parts):
        for given_part in range(source.num_parts):
            both = in_boxes(shape, wanted, part) & in_boxes(shape, source, given_part)
            assert found.get((part, given_part), 0) == len(both)


@settings(max_examples=40)
@given(cases())
def test_the_files_of_a_rank_list_have_all_that_a_rank_needs(case):
    shape, (mesh, layout), (other, target) = case

    def content(where, how):
        every = np.arange(where.num_ranks)
        return CheckpointContent(where, (SavedTensor("w", shape, DType.FP32, how, every),))

    slices = SourceSlices(content(mesh, layout), content(other, target))
    for rank in range(other.num_ranks):
        needed = elements(shape, other, target, rank)
        files = slices.rank_list(rank)
        held = [elements(shape, mesh, layout, source) for source in files]
        assert needed <= set().union(*held)
        assert all(needed & each for each in held), "no file is read for nothing"
        assert slices.read_bytes[rank] == 4 * len(needed)
        assert slices.num_files[rank] == len(files)


def test_equal_parts_are_written_once():
    mesh = Mesh.of({"data": 2, "tensor": 2})
    every = np.arange(4)
    split, whole = Layout((("tensor",), ())), Layout(((),))
    content = CheckpointContent(
        mesh,
        (
            SavedTensor("w", (4, 3), DType.FP32, split, every),
            SavedTensor("b", (5,), DType.BF16, whole, every),
        ),
    )
    assert content.num_bytes == 48 + 10
    assert content.rank_bytes.tolist() == [34, 34, 34, 34]
    assert content.once_bytes.tolist() == [34, 24, 0, 0]
