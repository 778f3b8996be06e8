from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from simcluster.layout import Mesh, SplitMesh, SubAxis, axis_pieces, unsplit_mesh, whole

MESH = Mesh.of({"pipeline": 2, "data": 2, "tensor": 8})


def cut(mesh, *digits, stage_axis="pipeline"):
    return SplitMesh.of(mesh, stage_axis, [SubAxis(*digit) for digit in digits])


def test_an_axis_is_cut_where_a_digit_ends_inside_it():
    found = cut(MESH, (1, 4))
    assert found.mesh == Mesh.of({"pipeline": 2, "data": 2, "tensor.0": 2, "tensor.1": 4})
    assert found.axes(SubAxis(1, 4)) == ("tensor.1",)
    assert found.axes(SubAxis(4, 4)) == ("data", "tensor.0")
    assert found.axes(SubAxis(1, 16)) == ("data", "tensor.0", "tensor.1")


def test_whole_axes_stay_as_they_are():
    assert cut(MESH, (1, 8), (8, 2), (1, 16)).mesh == MESH
    assert cut(MESH).mesh == MESH


def test_stages_count_ranks_of_their_own():
    inner = Mesh.of({"data": 4, "pipeline": 2, "tensor": 4})
    found = cut(inner, (2, 4))
    assert found.mesh == Mesh.of({"data.0": 2, "data.1": 2, "pipeline": 2, "tensor.0": 2, "tensor.1": 2})
    assert found.axes(SubAxis(2, 4)) == ("data.1", "tensor.0")


def test_what_does_not_nest_is_refused_with_the_numbers():
    with pytest.raises(ValueError, match="2 does not divide 3"):
        cut(Mesh.of({"data": 2, "tensor": 3}), (1, 2))
    with pytest.raises(ValueError, match="2 does not divide 3"):
        cut(Mesh.of({"devices": 6}), (1, 2), (1, 3))


def test_what_reaches_over_the_stage_is_refused():
    with pytest.raises(ValueError, match="reaches over 32 ranks, and a stage has 16"):
        cut(MESH, (1, 32))


def test_pieces_and_wholes():
    mesh = cut(MESH, (1, 4)).mesh
    assert axis_pieces(mesh, "tensor") == ("tensor.0", "tensor.1")
    assert axis_pieces(mesh, "data") == ("data",)
    assert axis_pieces(mesh, "expert") == ("expert",)
    assert whole(axis_pieces(mesh, "tensor")[1]) == whole("tensor") == "tensor"
    assert unsplit_mesh(mesh) == MESH


@given(
    factors=st.lists(st.sampled_from([2, 3]), min_size=1, max_size=5),
    ends=st.lists(st.integers(0, 5), min_size=2, max_size=2, unique=True),
    joins=st.lists(st.booleans(), min_size=5, max_size=5),
)
@settings(max_examples=40)
def test_a_digit_separates_the_same_ranks_as_its_axes(factors, ends, joins):
    """On a mesh of any axes whose products nest with the digit: its groups are runs of one stride."""
    low, high = sorted(ends)
    assume(high <= len(factors))
    sizes, runs = list(factors), [[]]
    for place, size in enumerate(sizes):
        runs[-1].append(size)
        if joins[place]:
            runs.append([])
    mesh = Mesh.of({f"a{index}": math.prod(run) for index, run in enumerate(runs)})
    digit = SubAxis(
        math.prod(sizes[len(sizes) - low :]), math.prod(sizes[len(sizes) - high : len(sizes) - low])
    )
    found = SplitMesh.of(mesh, "", [digit])
    assert found.mesh.num_ranks == mesh.num_ranks
    assert unsplit_mesh(found.mesh).num_ranks == mesh.num_ranks
    for group in found.mesh.groups(found.axes(digit)):
        assert (np.diff(group) == digit.stride).all()
        assert len(group) == digit.size
    for name in mesh.names:
        assert sorted(map(tuple, found.mesh.groups(axis_pieces(found.mesh, name)).tolist())) == sorted(
            map(tuple, mesh.groups((name,)).tolist())
        )
