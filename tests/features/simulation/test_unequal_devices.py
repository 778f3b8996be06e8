"""What differences between devices cost a step: against one in which all are as fast as in the mean."""

from __future__ import annotations

import pytest

from simcluster.scenario import Scenario
from simcluster.simulation import simulate


def summary(*changes, seed=0):
    document = {
        "simcluster": 1,
        "name": "small",
        "cluster": {"use": "dgx-h100", "hosts": 2, "changes": list(changes)},
        "model": {"family": "llama", "layers": 4, "hidden": 2048, "heads": 16, "vocab": 4096, "ffn": 5632},
        "training": {"global_batch": 16, "micro_batch": 1, "seq_len": 2048},
        "parallel": {"mesh": {"data": 4, "tensor": 4}},
        "run": {"seed": seed},
    }
    return simulate(Scenario.of(document)).documents["summary"]


def test_a_law_costs_more_the_wider_it_is():
    costs = []
    for deviation in (0.005, 0.02, 0.05):
        told = summary({"devices": "all", "compute": {"normal": [1.0, deviation]}})
        unequal = told["unequal_devices"]
        assert unequal["equal_step_time_s"] + unequal["lost_s"] == pytest.approx(told["step_time_s"])
        costs.append(unequal["share"])
    assert 0 < costs[0] < costs[1] < costs[2] < 0.2


def test_what_concerns_all_devices_alike_is_no_difference():
    assert "unequal_devices" not in summary()
    assert "unequal_devices" not in summary({"devices": "all", "power": "500 W"})


def test_a_straggler_is_against_the_mean_of_all():
    even = summary()["step_time_s"]
    told = summary({"device": 3, "compute": 0.5})["unequal_devices"]
    assert told["equal_step_time_s"] == pytest.approx(even * (1 + 0.5 / 16), rel=0.03)
    assert told["share"] > 0.2
