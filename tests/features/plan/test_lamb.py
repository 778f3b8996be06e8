"""Steps of LAMB have the values of one device, and its states the size of Adam's."""

from __future__ import annotations

import pytest

from simcluster.simulation import build_scenario, verify
from tests.support.scenarios import TINY, TINY_GPT, scenario

LAMB = {"optimizer": {"kind": "lamb", "weight_decay": 0.05}, "precision": "fp32"}


def test_lamb_holds_what_adam_holds():
    found = {}
    for kind in ("adamw", "lamb"):
        built = build_scenario(scenario({"data": 2, "tensor": 2}, training={"optimizer": kind}))
        found[kind] = sum(each.num_bytes for each in built.program.parts[0].residents)
    assert found["lamb"] == found["adamw"]


@pytest.mark.combinations
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("zero", [0, 1])
@pytest.mark.parametrize("model", [TINY, TINY_GPT], ids=["llama", "gpt"])
@pytest.mark.parametrize(
    "mesh", [{"data": 4}, {"data": 3, "tensor": 2}, {"pipeline": 2, "data": 2, "tensor": 2}]
)
def test_ranks_step_as_one_device_does(mesh, model, zero, precision):
    which = scenario(
        mesh, model=model, training={**LAMB, "precision": precision}, optimizer_sharding={"zero": zero}
    )
    found = verify(which)
    assert found.agrees, found.fault or found.first_difference


def test_without_decay_lamb_is_verified_with_some():
    found = verify(scenario({"data": 2}, model=TINY_GPT, training={"optimizer": "lamb"}))
    assert found.agrees, found.fault or found.first_difference
    assert ("weight_decay", "0.0", "0.01") in found.changes
