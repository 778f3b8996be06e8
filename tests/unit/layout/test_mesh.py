from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.layout import Mesh, base_axis, restricted_axis, rooted_groups, whole_axes, without_root
from tests.support.layout_arrays import mates, meshes, position, where

MESH = Mesh.of({"pipeline": 2, "data": 3, "tensor": 4})


def test_ranks_run_row_major_over_the_axes():
    assert MESH.names == ("pipeline", "data", "tensor")
    assert MESH.num_ranks == 24
    assert MESH.coordinates.shape == (24, 3)
    assert MESH.coordinates[17].tolist() == [1, 1, 1]
    assert [MESH.coordinate(17, axis) for axis in MESH.names] == [1, 1, 1]
    assert [MESH.coordinate(11, axis) for axis in MESH.names] == [0, 2, 3]


def test_groups_of_the_last_axis_are_neighbours():
    assert MESH.groups(("tensor",))[0].tolist() == [0, 1, 2, 3]
    assert MESH.groups(("data",))[0].tolist() == [0, 4, 8]
    assert MESH.groups(("pipeline",))[0].tolist() == [0, 12]


def test_the_first_axis_of_a_group_is_the_outermost():
    assert MESH.groups(("data", "tensor"))[0].tolist() == list(range(12))
    assert MESH.groups(("tensor", "data"))[0].tolist() == [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11]


def test_an_axis_the_mesh_does_not_have_has_one_coordinate():
    assert MESH.size("expert") == 1
    assert MESH.coordinate(5, "expert") == 0
    assert MESH.product(("expert", "data")) == 3
    assert MESH.groups(("expert", "data")).tolist() == MESH.groups(("data",)).tolist()
    assert MESH.groups(("expert",)).tolist() == [[rank] for rank in range(24)]


def test_a_mesh_without_axes_is_one_rank():
    mesh = Mesh.of({})
    assert mesh.num_ranks == 1
    assert str(mesh) == "one rank"
    assert mesh.groups(()).tolist() == [[0]]
    assert mesh.coordinates.shape == (1, 0)
    assert mesh.index(0, ("data",)) == 0


def test_it_prints_its_axes():
    assert str(MESH) == "pipeline 2 x data 3 x tensor 4"


@settings(max_examples=25)
@given(mesh=meshes(), data=st.data())
def test_the_groups_of_any_axes_are_a_partition(mesh, data):
    axes = tuple(data.draw(st.lists(st.sampled_from(mesh.names), unique=True)))
    groups = mesh.groups(axes)
    assert groups.shape == (mesh.num_ranks // mesh.product(axes), mesh.product(axes))
    assert sorted(groups.ravel().tolist()) == list(range(mesh.num_ranks))
    for members in groups.tolist():
        assert sorted(members) == mates(members[0], axes, mesh)
        assert [mesh.index(rank, axes) for rank in members] == list(range(len(members)))
        assert [position(rank, axes, mesh) for rank in members] == list(range(len(members)))


@settings(max_examples=60)
@given(mesh=meshes())
def test_coordinates_are_those_of_row_major_order(mesh):
    for rank in range(mesh.num_ranks):
        assert dict(zip(mesh.names, mesh.coordinates[rank].tolist(), strict=True)) == where(rank, mesh)
        assert all(mesh.coordinate(rank, axis) == value for axis, value in where(rank, mesh).items())


# -- restricted axes ----------------------------------------------------------------------------------


def test_a_restricted_axis_is_text_over_its_base():
    axis = restricted_axis("pipeline", [0, 3])
    assert axis == "pipeline[0,3]"
    assert base_axis(axis) == "pipeline"
    assert base_axis("pipeline") == "pipeline"


def test_a_restricted_axis_keeps_only_its_coordinates():
    mesh = Mesh.of({"pipeline": 4, "data": 2})
    axis = restricted_axis("pipeline", [0, 3])
    assert mesh.size(axis) == 2
    assert mesh.groups((axis,)).tolist() == [[0, 6], [1, 7]]
    assert mesh.groups(("data", axis)).tolist() == [[0, 6, 1, 7]]
    assert mesh.groups((axis, "data")).tolist() == [[0, 1, 6, 7]]
    assert [mesh.coordinate(rank, axis) for rank in (0, 1, 6, 7)] == [0, 0, 1, 1]
    assert [mesh.index(rank, ("data", axis)) for rank in (0, 6, 1, 7)] == [0, 1, 2, 3]


def test_a_rank_outside_a_restricted_axis_has_no_place_in_it():
    mesh = Mesh.of({"pipeline": 4, "data": 2})
    axis = restricted_axis("pipeline", [0, 3])
    assert not np.isin([2, 3, 4, 5], mesh.groups((axis,))).any()
    with pytest.raises(ValueError, match="not in"):
        mesh.coordinate(2, axis)


@settings(max_examples=25)
@given(mesh=meshes(), data=st.data())
def test_restricted_groups_are_the_whole_ones_less_what_is_not_kept(mesh, data):
    name = data.draw(st.sampled_from(mesh.names))
    kept = sorted(data.draw(st.sets(st.integers(0, mesh.size(name) - 1), min_size=1)))
    axis = restricted_axis(name, kept)
    others = tuple(
        data.draw(
            st.lists(st.sampled_from([each for each in mesh.names if each != name] or [name]), unique=True)
        )
    )
    others = tuple(each for each in others if each != name)
    whole = mesh.groups((*others, name)).reshape(-1, mesh.product(others), mesh.size(name))
    assert mesh.groups((*others, axis)).tolist() == whole[:, :, kept].reshape(len(whole), -1).tolist()


def test_explicit_groups():
    mesh = Mesh.of({"data": 2, "tensor": 3}).with_groups({"pair": [[4, 0], [1, 5]]})
    assert mesh.groups(("pair",)).tolist() == [[4, 0], [1, 5]]
    assert mesh.size("pair") == mesh.product(("pair",)) == 2
    assert [mesh.index(rank, ("pair",)) for rank in (4, 0, 1, 5)] == [0, 1, 0, 1]
    assert mesh.groups(("data",)).tolist() == Mesh.of({"data": 2, "tensor": 3}).groups(("data",)).tolist()
    assert mesh.num_ranks == 6
    assert mesh != Mesh.of({"data": 2, "tensor": 3})
    with pytest.raises(ValueError, match="rank 2 is in no group 'pair'"):
        mesh.coordinate(2, "pair")


def test_groups_with_a_root():
    axis = rooted_groups(("pair",), 1)
    assert axis == "pair@1"
    assert without_root(axis) == base_axis(axis) == "pair"
    assert without_root(restricted_axis("pipeline", [0, 3])) == "pipeline[0,3]"
    both = rooted_groups(("data", "tensor"), 2)
    assert (both, base_axis(both), whole_axes([both])) == ("data+tensor@2", "data+tensor", ("data", "tensor"))
    assert {pickle.loads(pickle.dumps(axis)).base, copy.deepcopy(axis).base} == {"pair"}


def test_ranks_behind_the_axes_are_alone():
    mesh = Mesh.of({"data": 2, "tensor": 2}).with_off_axes(3)
    assert (mesh.num_on_axes, mesh.num_ranks) == (4, 7)
    assert mesh.groups(("tensor",)).tolist() == [[0, 1], [2, 3]]
    assert mesh.groups(("elsewhere",)).tolist() == [[rank] for rank in range(7)]
    assert mesh.coordinates.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1], [0, 0], [0, 0], [0, 0]]
    assert mesh.with_groups({"pair": [[0, 3]]}).off_axes == 3
