"""Models that a scenario writes operator by operator train as on one device."""

from __future__ import annotations

import pytest

from simcluster.scenario import Scenario
from simcluster.simulation import verify
from tests.support.manual import MLP, written


@pytest.mark.parametrize(
    ("mesh", "parallel"),
    [
        ({"data": 4}, {"mode": "data"}),
        ({"tensor": 2}, {"recipe": "data", "strategies": [{"match": "*.fc1", "split": {"out": "tensor"}}]}),
        (
            {"data": 2, "tensor": 2},
            {
                "recipe": "data",
                "strategies": [
                    {"match": "*.fc1", "split": {"out": "tensor"}},
                    {"match": "*.fc2", "split": {"in": "tensor"}},
                ],
                "optimizer_sharding": {"zero": 1},
            },
        ),
    ],
)
def test_it_is_a_model_like_any_other(mesh, parallel):
    which = written(mesh, None)
    data = which.spec.model_dump(mode="json", exclude_unset=True)
    data["parallel"] = {"mesh": mesh, **parallel}
    found = verify(Scenario.of(data))
    assert found.agrees, found.first_difference or found.fault


def test_names_that_are_numbers_are_names():
    which = written({"data": 2}, None)
    data = which.spec.model_dump(mode="json", exclude_unset=True)
    names = {each["name"]: str(place) for place, each in enumerate(MLP["operators"])} | {
        "x": "nan",
        "w1": "1e3",
    }
    graph = {
        "feeds": {names.get(name, name): each for name, each in MLP["feeds"].items()},
        "parameters": {names.get(name, name): each for name, each in MLP["parameters"].items()},
        "operators": [
            {
                **each,
                "name": names[each["name"]],
                "inputs": [names.get(value, value) for value in each["inputs"]],
            }
            for each in MLP["operators"]
        ],
        "loss": names[MLP["loss"]],
    }
    data["model"] = {"graph": graph}
    data["parallel"] = {"mesh": {"data": 2}, "mode": "data"}
    found = verify(Scenario.of(data))
    assert found.agrees, found.first_difference or found.fault
