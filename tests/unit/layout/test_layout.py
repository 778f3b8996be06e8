from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, replace

import numpy as np
import pytest
from hypothesis import given, settings

from simcluster.layout import Dims, Layout, Mesh, Movement, MovementKind, Strategy
from simcluster.values.exchange import local_part
from tests.support.layout_arrays import part, tensors

MESH = Mesh.of({"a": 2, "b": 3})


def test_the_first_axis_of_a_dim_is_the_outer_one():
    layout = Layout((("a", "b"),))
    assert layout.slices((12,), MESH, 0) == (slice(0, 2),)
    assert layout.slices((12,), MESH, 1) == (slice(2, 4),)
    assert layout.slices((12,), MESH, 3) == (slice(6, 8),)
    turned = Layout((("b", "a"),))
    assert turned.slices((12,), MESH, 1) == (slice(4, 6),)
    assert turned.slices((12,), MESH, 3) == (slice(2, 4),)


def test_local_shapes_divide_dims_by_their_axes():
    assert Layout((("a",), (), ("b",))).local_shape((4, 5, 9), MESH) == (2, 5, 3)
    assert Layout((("b", "a"), ())).local_shape((12, 5), MESH) == (2, 5)
    assert Layout.replicated(3).local_shape((4, 5, 9), MESH) == (4, 5, 9)
    assert Layout(()).local_shape((), MESH) == ()


def test_flat_layouts_have_one_dim_and_are_padded():
    assert Layout(((), ()), flat=("a", "b")).local_shape((5, 3), MESH) == (3,)
    assert Layout((("a",), ()), flat=("b",)).local_shape((4, 5), MESH) == (4,)
    assert Layout((), flat=("a",)).local_shape((), MESH) == (1,)


def test_axes_are_all_that_the_layout_uses():
    layout = Layout((("a",), ()), (("c", "sum"),), ("b",))
    assert layout.axes == ("a", "b", "c")
    assert layout.partial_axes == ("c",)
    assert layout.reduced == Layout((("a",), ()), flat=("b",))
    assert layout.reduced.reduced == layout.reduced


def test_partial_axes_are_sorted_so_that_equal_layouts_are_equal():
    one = Layout(((),)).with_partial(("b",)).with_partial(("a",))
    assert one == Layout(((),)).with_partial(("a", "b"))
    assert one.partial == (("a", "sum"), ("b", "sum"))
    assert hash(one) == hash(Layout(((),), (("a", "sum"), ("b", "sum"))))
    assert one.with_partial(()) == one
    assert Layout(((),)).with_partial(("a",), "max").partial == (("a", "max"),)


@pytest.mark.parametrize(
    "value", [Layout(((),)), Strategy(), Dims((), ()), Movement(MovementKind.SLICE, ("a",)), MESH]
)
def test_layouts_and_what_they_are_made_of_are_values(value):
    name = fields(value)[0].name
    with pytest.raises(FrozenInstanceError):
        setattr(value, name, ())
    assert hash(value) == hash(replace(value))


def test_the_order_of_axes_makes_another_layout():
    assert Layout((("a", "b"),)) != Layout((("b", "a"),))
    assert Layout(((),), flat=("a", "b")) != Layout(((),), flat=("b", "a"))


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        (Layout(()), "()"),
        (Layout((("data",), ())), "(data, -)"),
        (Layout((("data", "tensor"), ()), (("c", "sum"), ("d", "max"))), "(data+tensor, -) partial c, max d"),
        (Layout(((),), flat=("a", "b")), "(-) flat a+b"),
    ],
)
def test_it_prints_what_lies_where(layout, text):
    assert str(layout) == text


@settings(max_examples=60)
@given(tensor=tensors(flat=False))
def test_slices_tile_the_tensor_exactly_once_per_replica(tensor):
    (layout,) = tensor.layouts
    mesh, shape = tensor.mesh, tensor.whole.shape
    count = np.zeros(shape, dtype=int)
    for rank in range(mesh.num_ranks):
        found = layout.slices(shape, mesh, rank)
        count[found] += 1
        assert count[found].shape == layout.local_shape(shape, mesh)
    replicas = mesh.num_ranks // mesh.product(layout.axes)
    assert (count == replicas).all()


@settings(max_examples=60)
@given(tensor=tensors())
def test_a_rank_holds_the_part_that_index_arithmetic_gives(tensor):
    (layout,) = tensor.layouts
    mesh = tensor.mesh
    for rank in range(mesh.num_ranks):
        found = local_part(tensor.whole, layout, mesh, rank)
        assert found.shape == layout.local_shape(tensor.whole.shape, mesh)
        assert np.array_equal(found, part(tensor.whole, layout, mesh, rank))


@settings(max_examples=60)
@given(tensor=tensors())
def test_the_runs_of_a_flat_layout_are_the_buffer_and_its_padding(tensor):
    (layout,) = tensor.layouts
    mesh = tensor.mesh
    dense = Layout(layout.dims)
    for group in mesh.groups(layout.flat) if layout.flat else ():
        runs = [local_part(tensor.whole, layout, mesh, rank) for rank in group]
        wanted = local_part(tensor.whole, dense, mesh, group[0]).ravel()
        joined = np.concatenate(runs)
        assert np.array_equal(joined[: wanted.size], wanted)
        assert not joined[wanted.size :].any()
        assert joined.size - wanted.size < len(group)
