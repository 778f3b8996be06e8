"""MindSpore's redistribution inference: the golden sequences of the reference, and any pair of layouts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from simcluster.layout import Layout, Mesh, MovementKind, infer_mindspore_sequence
from tests.support.layout_arrays import check, moved, spread, tensors

A2A, AG, SPLIT = MovementKind.ALL_TO_ALL, MovementKind.ALL_GATHER, MovementKind.SLICE


def steps(sizes, before, after, *, all_to_all=True):
    """(kind, dim or (split, concat), device dim from the right, ranks) of each step between tensor maps."""
    names = [f"d{len(sizes) - 1 - index}" for index in range(len(sizes))]
    mesh = Mesh.of(dict(zip(names, sizes, strict=True)))
    start, target = (
        Layout(tuple((f"d{place}",) if place >= 0 else () for place in places)) for places in (before, after)
    )
    found = []
    for movement, _ in infer_mindspore_sequence(start, target, all_to_all=all_to_all):
        (axis,) = movement.axes
        where = (movement.to_dim, movement.dim) if movement.kind is A2A else movement.dim
        found.append((movement.kind, where, int(axis[1:]), mesh.size(axis)))
    return found


GOLDEN = [
    # Reference 3.4, obtained there from the upstream file: device matrix, tensor maps, with and without.
    ([2, 4], [-1, -1], [1, 0], [(SPLIT, 0, 1, 2), (SPLIT, 1, 0, 4)], None),
    ([2, 4], [1, 0], [-1, -1], [(AG, 0, 1, 2), (AG, 1, 0, 4)], None),
    ([2, 4], [1, -1], [-1, 1], [(A2A, (1, 0), 1, 2)], [(AG, 0, 1, 2), (SPLIT, 1, 1, 2)]),
    ([8], [0, -1], [-1, 0], [(A2A, (1, 0), 0, 8)], [(AG, 0, 0, 8), (SPLIT, 1, 0, 8)]),
    ([2, 4], [1, -1], [0, -1], [(AG, 0, 1, 2), (SPLIT, 0, 0, 4)], None),
    (
        [2, 4],
        [1, 0],
        [0, 1],
        [(AG, 0, 1, 2), (A2A, (0, 1), 0, 4), (SPLIT, 1, 1, 2)],
        [(AG, 0, 1, 2), (AG, 1, 0, 4), (SPLIT, 0, 0, 4), (SPLIT, 1, 1, 2)],
    ),
    (
        [4, 2],
        [1, 0],
        [0, -1],
        [(AG, 0, 1, 4), (A2A, (0, 1), 0, 2)],
        [(AG, 0, 1, 4), (AG, 1, 0, 2), (SPLIT, 0, 0, 2)],
    ),
    (
        [2, 4],
        [-1, 1],
        [1, 0],
        [(A2A, (0, 1), 1, 2), (SPLIT, 1, 0, 4)],
        [(AG, 1, 1, 2), (SPLIT, 0, 1, 2), (SPLIT, 1, 0, 4)],
    ),
    (
        [2, 4],
        [0, 1],
        [1, -1],
        [(AG, 0, 0, 4), (A2A, (0, 1), 1, 2)],
        [(AG, 0, 0, 4), (AG, 1, 1, 2), (SPLIT, 0, 1, 2)],
    ),
    (
        [2, 2, 2],
        [2, -1, 0],
        [-1, 2, 1],
        [(A2A, (1, 0), 2, 2), (AG, 2, 0, 2), (SPLIT, 2, 1, 2)],
        [(AG, 0, 2, 2), (SPLIT, 1, 2, 2), (AG, 2, 0, 2), (SPLIT, 2, 1, 2)],
    ),
    (
        [2, 2, 2],
        [2, 1, 0],
        [0, 2, 1],
        [(AG, 0, 2, 2), (A2A, (0, 2), 0, 2), (A2A, (2, 1), 1, 2), (SPLIT, 1, 2, 2)],
        [(AG, 0, 2, 2), (AG, 2, 0, 2), (SPLIT, 0, 0, 2), (AG, 1, 1, 2), (SPLIT, 2, 1, 2), (SPLIT, 1, 2, 2)],
    ),
]


@pytest.mark.parametrize(("sizes", "before", "after", "exchanged", "gathered"), GOLDEN)
def test_the_golden_sequences_of_the_reference(sizes, before, after, exchanged, gathered):
    assert steps(sizes, before, after) == exchanged
    assert steps(sizes, before, after, all_to_all=False) == (gathered or exchanged)


@settings(max_examples=120)
@given(tensor=tensors(2, flat=False))
def test_every_sequence_takes_every_rank_to_its_slice(tensor):
    start, target = tensor.layouts
    for all_to_all in (True, False):
        arrays, layout = spread(tensor, start), start
        for movement, reached in infer_mindspore_sequence(start, target, all_to_all=all_to_all):
            assert all_to_all or movement.kind is not A2A
            arrays, layout = moved(movement, reached, arrays, tensor), reached
        assert layout == target
        check(arrays, target, tensor)


@settings(max_examples=40)
@given(tensor=tensors(1, flat=False, partial=False))
def test_a_layout_is_already_itself(tensor):
    (layout,) = tensor.layouts
    assert infer_mindspore_sequence(layout, layout) == ()


def test_axes_that_stand_together_are_one_device_dim():
    start, target = Layout((("a", "b"), ())), Layout(((), ("a", "b")))
    ((movement, _),) = infer_mindspore_sequence(start, target)
    assert (movement.kind, movement.axes) == (A2A, ("a", "b"))
    apart = [movement.axes for movement, _ in infer_mindspore_sequence(start, Layout((("a",), ("b",))))]
    assert apart == [("b",)]


def test_sums_are_all_reduced_first():
    start = Layout(((), ()), (("a", "sum"), ("b", "sum")))
    found = [
        (movement.kind, movement.axes)
        for movement, _ in infer_mindspore_sequence(start, Layout((("a",), ())))
    ]
    assert found == [(MovementKind.ALL_REDUCE, ("a", "b")), (SPLIT, ("a",))]


def test_flat_buffers_have_no_inference():
    assert infer_mindspore_sequence(Layout(((),), flat=("a",)), Layout(((),))) is None
