"""Halos: what neighbours exchange is what a rank needs of them, and its gradient finds its owner."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.errors import PlanError
from simcluster.layout import Dims, Halo, Layout, Mesh, MovementKind, Strategy, Window
from simcluster.model import TensorType
from simcluster.plan.redistribution.redistribution_planner import RedistributionPlanner, local_bytes
from simcluster.values.exchange import exchange_arrays, slice_array
from simcluster.work import DType
from tests.support.layout_arrays import position

SPLITS = [
    ((), ("a",)),
    (("a",), ()),
    (("a",), ("b",)),
    (("b",), ("a",)),
    ((), ("a", "b")),
    ((), ("b", "a")),
]


@st.composite
def pictures(draw):
    """A mesh, a whole array [2, rows, columns], and a layout that splits rows or columns, with halos."""
    mesh = Mesh.of({"a": draw(st.sampled_from([2, 3, 4])), "b": 2})
    dims = ((), *draw(st.sampled_from(SPLITS)))
    shape = [2]
    halos = []
    for dim, axes in enumerate(dims[1:], start=1):
        part = draw(st.integers(1, 4))
        shape.append(part * mesh.product(axes))
        if axes:
            before, after = draw(st.tuples(st.integers(0, part), st.integers(0, part)))
            halos.append(Halo(dim, before, after, draw(st.sampled_from([0.0, -np.inf]))))
    whole = np.random.default_rng(draw(st.integers(0, 99))).standard_normal(shape)
    return mesh, whole, Layout(dims).with_halos(halos)


def framed(whole, layout, mesh, rank):
    """A rank's part with its halos, cut from the whole with a frame around it."""
    found = whole
    for halo in layout.halos:
        margins = [(0, 0)] * whole.ndim
        margins[halo.dim] = (halo.before, halo.after)
        found = np.pad(found, margins, constant_values=halo.fill)
    sizes = replace(layout, halos=()).local_shape(whole.shape, mesh)
    wider = {halo.dim: halo.size for halo in layout.halos}
    for dim, axes in enumerate(layout.dims):
        start = position(rank, axes, mesh) * sizes[dim]
        found = found.take(range(start, start + sizes[dim] + wider.get(dim, 0)), axis=dim)
    return found


def travelled(path, arrays, whole, mesh):
    """What every rank holds behind a path, and the bytes that ranks sent by each movement."""
    sent = []
    for movement, reached in path:
        if not movement.is_collective:
            arrays = [slice_array(movement, array, mesh, rank) for rank, array in enumerate(arrays)]
            continue
        shape = reached.local_shape(whole.shape, mesh)
        found = [None] * len(arrays)
        for group in mesh.groups(movement.axes):
            results = exchange_arrays(movement, [arrays[rank] for rank in group], shape)
            for rank, result in zip(group, results, strict=True):
                found[rank] = result
                assert result.shape == shape
        sent.append((movement, abs(found[0].nbytes - arrays[0].nbytes)))
        arrays = found
    return arrays, sent


def router(mesh):
    return RedistributionPlanner(mesh, lambda movement, size: 1.0 + size)


@settings(max_examples=60)
@given(pictures())
def test_neighbours_bring_what_stands_beside_a_part_corners_too(picture):
    mesh, whole, target = picture
    start = replace(target, halos=())
    kind = TensorType(whole.shape, DType.FP64)
    path = router(mesh).path(kind, start, target)
    parts = [framed(whole, start, mesh, rank) for rank in range(mesh.num_ranks)]
    found, sent = travelled(path, parts, whole, mesh)
    for rank, array in enumerate(found):
        assert np.array_equal(array, framed(whole, target, mesh, rank))
    sizes = [local_bytes(kind, layout, mesh) for layout in (start, *(reached for _, reached in path))]
    counted = [
        movement.num_bytes(before, after, mesh.product(movement.axes))
        for (movement, _), before, after in zip(path, sizes, sizes[1:], strict=False)
        if movement.is_collective
    ]
    assert counted == [size for _, size in sent]
    kinds = [movement.kind for movement, _ in path]
    for halo in target.halos:
        both = [halo.before, halo.after]
        assert kinds.pop(0) is (MovementKind.NEIGHBOR_EXCHANGE if min(both) else MovementKind.SHIFT)
        if min(both) and halo.before != halo.after:
            assert kinds.pop(0) is MovementKind.SHIFT
    assert kinds == ([MovementKind.COPY] if target.halos else [])


@settings(max_examples=60)
@given(pictures(), st.integers(0, 9))
def test_adding_halos_is_the_transpose_of_reading_them(picture, seed):
    """<read(x), g> = <x, add(g)>, with zeros read beyond the ends."""
    mesh, whole, target = picture
    target = target.with_halos([replace(halo, fill=0.0) for halo in target.halos])
    start = replace(target, halos=())
    owed = target.with_halos([replace(halo, adds=True) for halo in target.halos])
    kind = TensorType(whole.shape, DType.FP64)
    ranks = range(mesh.num_ranks)
    read = [framed(whole, target, mesh, rank) for rank in ranks]
    rng = np.random.default_rng(seed)
    grads = [rng.standard_normal(array.shape) for array in read]
    path = router(mesh).path(kind, owed, start)
    assert [movement.kind for movement, _ in path].count(MovementKind.COPY) == bool(owed.halos)
    added, _ = travelled(path, grads, whole, mesh)
    parts = [framed(whole, start, mesh, rank) for rank in ranks]
    # Ranks beside each other along axes that split nothing are copies with gradients of their own.
    left = sum((array * grad).sum() for array, grad in zip(read, grads, strict=True))
    right = sum((part * grad).sum() for part, grad in zip(parts, added, strict=True))
    assert left == pytest.approx(right, rel=1e-9, abs=1e-9)


def test_a_halo_wider_than_the_next_part_has_no_path():
    mesh = Mesh.of({"a": 4})
    split = Layout((("a",),))
    with pytest.raises(PlanError, match="no sequence of collectives"):
        router(mesh).path(TensorType((4,), DType.FP32), split, split.with_halos([Halo(0, 2, 0)]))


def test_halos_of_dims_that_are_whole_are_none():
    assert Layout(((), ("a",))).with_halos([Halo(0, 1, 1), Halo(1, 0, 0)]) == Layout(((), ("a",)))


def test_a_whole_tensor_is_sliced_and_then_exchanged():
    mesh = Mesh.of({"a": 2})
    target = Layout((("a",),)).with_halos([Halo(0, 1, 1)])
    path = router(mesh).path(TensorType((4,), DType.FP32), Layout(((),)), target)
    assert [movement.kind for movement, _ in path] == [
        MovementKind.SLICE,
        MovementKind.NEIGHBOR_EXCHANGE,
        MovementKind.COPY,
    ]


def test_a_layout_says_its_halos():
    split = Layout((("a",), ()))
    assert str(split.with_halos([Halo(0, 1, 2)])) == "(a, -), reading 1+2 of dim 0"
    assert str(split.with_halos([Halo(0, 1, 2, adds=True)])) == "(a, -), owing 1+2 of dim 0"


WINDOWS = Dims((("x",),), (("x",),), windows=(Window(0, "x", 1, 3, 2), Window(1, "x", 2)))


def test_dims_give_halos_where_they_are_split():
    split = Strategy.of({"x": ("a",)})
    assert WINDOWS.input_layouts(split) == (Layout((("a",),), halos=(Halo(0, 3, 2),)),)
    assert WINDOWS.output_layouts(split) == (Layout((("a",),)),)
    assert WINDOWS.input_layouts(Strategy()) == (Layout(((),)),)
    back = Dims((("x",),), (("x",),), windows=(Window(1, "x", 1, 3, 2),))
    assert back.output_layouts(split) == (Layout((("a",),), halos=(Halo(0, 3, 2, adds=True),)),)


def test_extents_count_steps_and_not_halos():
    assert WINDOWS.extents([(12,), (6,)]) == {"x": 12}


@pytest.mark.parametrize(
    ("shapes", "ways", "reason"),
    [
        ([(12,), (6,)], 2, ""),
        ([(12,), (6,)], 4, "x 12 in steps of 2 into 4 parts: 6 / 4 = 1.5"),
        ([(13,), (7,)], 13, "x 13 is not a multiple of 2, the step of the windows over it: 13 / 2 = 6.5"),
        ([(8,), (4,)], 4, "x 8 / 4 = 2, but windows reach 3 beyond a part: further than the next rank's"),
    ],
)
def test_a_split_that_does_not_fit_windows_is_refused_with_the_arithmetic(shapes, ways, reason):
    assert WINDOWS.misfit("x", shapes, ways) == reason
