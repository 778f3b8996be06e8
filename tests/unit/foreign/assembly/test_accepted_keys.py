"""Asking the schema what it accepts."""

from __future__ import annotations

import pytest

from simcluster.foreign.assembly.accepted_keys import (
    in_schema_order,
    schema_accepts,
    schema_has,
    set_path,
)


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("model.norm", "rms", True),
        ("model.norm", "batch", False),
        ("model.wonder", True, False),
        ("framework", "ideal", True),
        ("framework", "wonder", False),
        ("parallel.schedule", {"kind": "1f1b"}, True),
        ("parallel.schedule", {"kind": "wonder"}, False),
        ("parallel.optimizer_sharding", {"zero": 1}, True),
        ("parallel.optimizer_sharding", {"zero": 9}, False),
        ("parallel.recompute", {"layers": "all"}, True),
        ("training.precision.compute", "fp16", True),
        ("training.precision.compute", "fp1", False),
    ],
)
def test_accepts(path, value, expected):
    assert schema_accepts(path, value) is expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("model.layers", True),
        ("model.wonder", False),
        ("training.optimizer.beta1", True),
        ("training.optimizer.wonder", False),
        ("job.wonder", False),
        ("parallel.mesh.tensor", True),
    ],
)
def test_knows(path, expected):
    assert schema_has(path) is expected


def test_put_makes_the_way():
    data = {"a": 1}
    set_path(data, "b.c", 2)
    set_path(data, "a.d", 3)
    assert data == {"a": {"d": 3}, "b": {"c": 2}}


def test_in_order():
    data = {"parallel": {"recipe": "data", "mesh": {"data": 1}}, "z": 1, "name": "x", "simcluster": 1}
    found = in_schema_order(data)
    assert list(found) == ["simcluster", "name", "parallel", "z"]
    assert list(found["parallel"]) == ["mesh", "recipe"]
    assert found == data


def test_an_inference_has_values_of_its_own():
    assert schema_accepts("inference.precision", "fp16")
    assert not schema_accepts("inference.precision", "int3")
