"""Meshes whose axes do not multiply to the devices: what is proposed, and what ``auto`` makes of them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.document import Refused
from simcluster.layout import Mesh
from simcluster.plan.spec import ParallelSpec
from simcluster.plan.strategies.mesh_axes import _proposed

MESHES = st.dictionaries(st.sampled_from(["pipeline", "data", "tensor", "expert"]), st.integers(1, 12))
DEVICES = st.integers(1, 2000)


@given(MESHES, DEVICES)
def test_the_size_that_is_proposed_fits_and_is_found_if_there_is_one(sizes, devices):
    mesh = Mesh.of(sizes)
    found = _proposed(mesh, devices)
    if found is not None:
        axis, size = found
        assert math.prod({**sizes, axis: size}.values()) == devices
    else:
        assert all(devices % (mesh.num_ranks // size) for size in (1, *sizes.values()))


def test_data_is_proposed_before_other_axes():
    assert _proposed(Mesh.of({"pipeline": 4, "data": 8, "tensor": 4}), 256) == ("data", 16)
    assert _proposed(Mesh.of({"tensor": 8}), 64) == ("data", 8)
    assert _proposed(Mesh.of({"pipeline": 5, "data": 8, "tensor": 8}), 256) == ("pipeline", 4)


@given(MESHES, st.sampled_from(["pipeline", "data", "tensor"]), DEVICES)
def test_auto_is_what_the_others_leave(sizes, axis, devices):
    others = {name: size for name, size in sizes.items() if name != axis}
    parallel = ParallelSpec.model_validate({"mesh": {**others, axis: "auto"}})
    product = math.prod(others.values())
    if devices % product:
        with pytest.raises(
            Refused, match=f"= {product} leaves no whole number of {devices} devices: "
        ) as caught:
            parallel.filled(devices)
        assert caught.value.problems[0].path == f"mesh.{axis}"
    else:
        assert math.prod(parallel.filled(devices).sizes.values()) == devices
        assert list(parallel.filled(devices).sizes) == list(parallel.mesh)


def test_sizes_that_are_written_stay():
    parallel = ParallelSpec.model_validate({"mesh": {"data": 4}})
    assert parallel.filled(24) is parallel


def test_one_axis_alone_is_auto():
    with pytest.raises(ValueError, match="'data' and 'tensor' are both auto"):
        ParallelSpec.model_validate({"mesh": {"data": "auto", "tensor": "auto"}})
