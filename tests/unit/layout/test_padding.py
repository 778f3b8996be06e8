"""Dims that do not divide: who holds what, and what padding must hold."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.layout import Dims, Layout, Mesh, Window, needed_padding, padding_refusal, zero_padding
from tests.support.layout_arrays import meshes

ROWS = ("batch", "seq", "in")
PRODUCT = Dims((ROWS, ("in", "out")), (("batch", "seq", "out"),), linear=(frozenset({0}), frozenset({1})))
BIASED = Dims((("seq", "out"), ("out",)), (("seq", "out"),))
BOTH = [True, True]


def test_six_heads_over_four_ranks_are_two_each():
    mesh, layout = Mesh.of({"tensor": 4}), Layout((("tensor",),))
    assert layout.local_shape((6,), mesh) == (2,)
    found = [layout.slices((6,), mesh, rank)[0] for rank in range(4)]
    assert [range(6)[part] for part in found] == [range(2), range(2, 4), range(4, 6), range(6, 6)]
    assert layout.padded((6,), mesh) == (0,)
    assert layout.padded((8,), mesh) == ()


def test_axes_split_one_after_the_other():
    """5 over 2 x 2: 3 and 2 first, then 2 and 1, and 2 and none."""
    mesh = Mesh.of({"a": 2, "b": 2})
    assert [mesh.run(rank, ("a", "b"), 5) for rank in range(4)] == [(0, 2), (2, 1), (3, 2), (5, 0)]


@given(meshes(), st.integers(0, 40))
@settings(max_examples=40)
def test_every_element_is_held_once_and_parts_are_as_small_as_can_be(mesh, size):
    axes = mesh.names
    runs = [mesh.run(rank, axes, size) for rank in range(mesh.num_ranks)]
    held = [each for first, count in runs for each in range(first, first + count)]
    assert sorted(held) == list(range(size))
    (local,) = Layout((axes,)).local_shape((size,), mesh)
    assert local == math.ceil(size / mesh.num_ranks)
    assert all(count <= local for _, count in runs)


@given(meshes(), st.integers(1, 5))
@settings(max_examples=40)
def test_what_divides_lies_as_ever(mesh, times):
    size = times * mesh.num_ranks
    runs = [mesh.run(rank, mesh.names, size) for rank in range(mesh.num_ranks)]
    assert runs == [(rank * times, times) for rank in range(mesh.num_ranks)]


def test_a_reduced_dim_must_hold_zeros_on_both_sides():
    assert needed_padding(PRODUCT, ["in"], BOTH) == ({"in": 0.0}, {"in": 0.0})
    assert needed_padding(PRODUCT, ["batch", "out"], BOTH) == ({}, {})


def test_ids_need_nothing():
    rows = Dims((("tokens",), ("tokens", "out")), (("rows", "out"),), linear=(frozenset({1}),))
    assert needed_padding(rows, ["tokens"], [False, True]) == ({}, {"tokens": 0.0})


@pytest.mark.parametrize(("reduction", "least"), [("max", -math.inf), ("min", math.inf)])
def test_extremes_need_the_farthest_number(reduction, least):
    assert needed_padding(Dims((("x",),), ((),), reduction=reduction), ["x"], [True]) == ({"x": least},)


def test_an_operator_may_say_what_is_neutral():
    loss = Dims((("x", "classes"), ("x",)), ((),), neutral=((1, -1.0),))
    assert needed_padding(loss, ["x"], [True, False]) == ({}, {"x": -1.0})


def test_a_sum_of_who_knows_what_is_refused():
    found = needed_padding(Dims((("x",),), ((),)), ["x"], [True])
    assert found == "it is summed over x, and no value is known that would add nothing"


def test_zeros_stay_zeros_through_what_is_linear():
    assert zero_padding(PRODUCT, ["out"], BOTH, [[], ["out"]]) == (frozenset({"out"}),)
    assert zero_padding(PRODUCT, ["out"], BOTH, [["out"], []]) == (frozenset(),)
    assert zero_padding(PRODUCT, ["in"], BOTH, [["in"], ["in"]]) == (frozenset(),)
    both = Dims((("seq",), ("seq",)), (("seq",),), linear=(frozenset({0}), frozenset({1})))
    assert zero_padding(both, ["seq"], BOTH, [["seq"], []]) == (frozenset(),), (
        "zero times no number is not a number"
    )


def test_what_lacks_the_dim_is_added_to_padding_as_well():
    assert zero_padding(BIASED, ["seq", "out"], BOTH, [["seq", "out"], ["out"]]) == (frozenset(),)
    added = Dims((("seq", "out"), ("out",)), (("seq", "out"),), linear=(frozenset({0, 1}),))
    assert zero_padding(added, ["seq", "out"], BOTH, [["seq", "out"], ["out"]]) == (frozenset({"out"}),)


def test_poles_and_functions_that_vanish():
    quotient = Dims((("x",), ("x",)), (("x",),), linear=(frozenset({0}),), division_inputs=frozenset({1}))
    assert zero_padding(quotient, ["x"], BOTH, [["x"], ["x"]]) == (frozenset(),)
    curve = Dims((("x",),), (("x",),), zero_preserving=((0, frozenset({0})),))
    assert zero_padding(curve, ["x"], [True], [["x"]]) == (frozenset({"x"}),)
    assert zero_padding(curve, ["x"], [True], [[]]) == (frozenset(),)


def test_windows_and_sizes_that_differ_are_refused():
    slid = Dims((("x",),), (("x",),), windows=(Window(0, "x", 1, 1, 1),))
    assert padding_refusal(slid, ["x"], [(6,), (6,)]) == "windows slide over x, whose parts must be equal"
    merged = Dims((("heads", "dim"),), (("heads",),))
    assert "heads has sizes 6 and 24 in its operands" in padding_refusal(merged, ["heads"], [(6, 4), (24,)])
    assert padding_refusal(merged, [], [(6, 4), (24,)]) == ""
    assert padding_refusal(PRODUCT, ["in", "out"], [(1, 2, 3), (3, 5), (1, 2, 5)]) == ""
