from __future__ import annotations

import pytest
from hypothesis import given, settings

from simcluster.layout import FLAT, Layout, Movement, MovementKind, movements
from tests.support.layout_arrays import check, divides, moved, spread, tensors


def steps(start: Layout, target: Layout):
    return {
        (movement.kind, movement.axes, movement.dim, movement.to_dim): reached
        for movement, reached in movements(start, target)
    }


@settings(max_examples=80)
@given(tensor=tensors(2, partial_last=True))
def test_every_movement_takes_the_parts_of_one_layout_to_those_of_the_next(tensor):
    start, target = tensor.layouts
    arrays = spread(tensor, start)
    check(arrays, start, tensor)
    for movement, reached in movements(start, target):
        assert len(set(reached.axes)) == len(reached.axes)
        if divides(tensor.whole.shape, reached, tensor.mesh):
            check(moved(movement, reached, arrays, tensor), reached, tensor)


@settings(max_examples=80)
@given(tensor=tensors(2, partial_last=True))
def test_a_movement_changes_the_layout_only_along_its_axes(tensor):
    start, target = tensor.layouts
    for movement, reached in movements(start, target):
        assert reached != start
        assert movement.axes
        assert len(set(movement.axes)) == len(movement.axes)
        others = [axis for axis in start.axes if axis not in movement.axes]
        assert [axis for axis in reached.axes if axis not in movement.axes] == others
        known = {*start.axes, *target.axes}
        assert set(movement.axes) <= known


def test_reductions_become_all_reduces_or_scatter_where_the_target_splits():
    start = Layout(((), ()), (("a", "sum"), ("b", "sum")))
    target = Layout((("b", "a"), ()))
    found = steps(start, target)
    assert found[MovementKind.ALL_REDUCE, ("a", "b"), 0, 0] == Layout(((), ()))
    assert found[MovementKind.ALL_REDUCE, ("a",), 0, 0] == Layout(((), ()), (("b", "sum"),))
    assert found[MovementKind.REDUCE_SCATTER, ("b", "a"), 0, 0] == target
    assert found[MovementKind.REDUCE_SCATTER, ("b",), 0, 0] == Layout((("b",), ()), (("a", "sum"),))
    assert (MovementKind.REDUCE_SCATTER, ("a",), 0, 0) not in found, "b is the outer axis and comes first"
    assert (MovementKind.REDUCE_SCATTER, ("a", "b"), 0, 0) not in found


def test_a_maximum_is_never_scattered_nor_mixed_with_a_sum():
    start = Layout(((),), (("a", "max"), ("b", "sum")))
    found = list(movements(start, Layout((("a", "b"),))))
    kinds = {(movement.kind, movement.axes, movement.reduction) for movement, _ in found}
    assert kinds == {
        (MovementKind.ALL_REDUCE, ("a",), "max"),
        (MovementKind.ALL_REDUCE, ("b",), "sum"),
    }


def test_a_reduction_that_the_target_still_owes_is_left_alone():
    start = Layout(((), ()), (("a", "sum"),))
    assert steps(start, Layout((("b",), ()), (("a", "sum"),))) == {
        (MovementKind.SLICE, ("b",), 0, 0): Layout((("b",), ()), (("a", "sum"),))
    }


def test_only_the_innermost_axes_of_a_dim_are_gathered_or_exchanged():
    start = Layout((("a", "b"), ()))
    found = steps(start, Layout(((), ("b", "a"))))
    assert found == {
        (MovementKind.ALL_GATHER, ("b",), 0, 0): Layout((("a",), ())),
        (MovementKind.ALL_GATHER, ("a", "b"), 0, 0): Layout(((), ())),
        (MovementKind.ALL_TO_ALL, ("b",), 0, 1): Layout((("a",), ("b",))),
        (MovementKind.ALL_TO_ALL, ("a", "b"), 0, 1): Layout(((), ("a", "b"))),
    }


def test_a_slice_takes_free_axes_in_the_order_of_the_target():
    assert steps(Layout(((), ("c",))), Layout((("a", "b"), ("c",)))) == {
        (MovementKind.SLICE, ("a", "b"), 0, 0): Layout((("a", "b"), ("c",))),
        (MovementKind.SLICE, ("a",), 0, 0): Layout((("a",), ("c",))),
        (MovementKind.ALL_GATHER, ("c",), 1, 0): Layout(((), ())),
    }
    held = steps(Layout(((), ("b",))), Layout((("a", "b"), ())))
    assert held[MovementKind.SLICE, ("a",), 0, 0] == Layout((("a",), ("b",))), (
        "b can then be exchanged behind a"
    )
    assert (MovementKind.SLICE, ("a", "b"), 0, 0) not in held
    assert (MovementKind.SLICE, ("a",), 0, 0) not in steps(Layout(((), ("a",))), Layout((("a",), ())))


def test_a_flat_buffer_is_scattered_gathered_and_sliced_as_one():
    split = Layout((("a",),))
    flat = Layout((("a",),), flat=("b", "c"))
    partial = split.with_partial(("b", "c"))
    assert steps(partial, flat)[MovementKind.REDUCE_SCATTER, ("b", "c"), FLAT, 0] == flat
    assert steps(flat, split) == {(MovementKind.ALL_GATHER, ("b", "c"), FLAT, 0): split}
    assert steps(split, flat)[MovementKind.SLICE, ("b", "c"), FLAT, 0] == flat
    assert not any(axes == ("b",) and dim == FLAT for _, axes, dim, _ in steps(partial, flat)), (
        "runs of runs would be padded twice"
    )


def test_nothing_leads_to_partial_values():
    for start in (Layout(((),)), Layout((("a",),)), Layout(((),), flat=("a",))):
        for _, reached in movements(start, Layout(((),), (("a", "sum"),))):
            assert not reached.partial


@pytest.mark.parametrize("kind", list(MovementKind))
def test_all_but_slices_and_copies_are_collectives(kind):
    assert Movement(kind, ("a",)).is_collective == (kind not in (MovementKind.SLICE, MovementKind.COPY))


def test_a_movement_prints_its_group():
    assert (
        str(Movement(MovementKind.REDUCE_SCATTER, ("data", "tensor"), 1)) == "reduce_scatter over data+tensor"
    )
