"""What is told of gradients that stay on the device although offload names them."""

from __future__ import annotations

import pytest

from simcluster import units
from simcluster.errors import PlanError
from simcluster.model import MemoryPlace
from simcluster.program import Category
from simcluster.simulation import build_scenario
from tests.support.offload_scenarios import scenario

LOSS = 4
"""Bytes of the sum of the loss, which is no gradient of a parameter."""

PARTS = {"mesh": {"data": 2, "tensor": 2}, "recipe": "megatron_sp", "optimizer_sharding": {"zero": 2}}
PLANS = {
    "norms on parts of the sequence": PARTS,
    "tied over stages": PARTS | {"mesh": {"pipeline": 2, "data": 2, "tensor": 2}},
    "some whole": {"mesh": {"data": 4}, "optimizer_sharding": {"zero": 2, "whole": ["embedding.*"]}},
    "small ones whole": {"mesh": {"data": 4}, "optimizer_sharding": {"zero": 2, "min_bytes": "4 KiB"}},
}


def told(offload, plan, **more):
    """The notes about offloaded gradients, and the bytes of gradients that each stage's devices hold."""
    built = build_scenario(scenario(offload, **plan, **more))
    held = [
        sum(
            each.num_bytes
            for each in part.residents
            if each.category is Category.GRADIENTS and each.place is MemoryPlace.DEVICE
        )
        for part in built.program.parts
    ]
    return [note for note in built.plan.notes if note.startswith("offload.gradients: ")], held


@pytest.mark.parametrize("updates", [(), ("*.update",)], ids=["here", "on the host"])
@pytest.mark.parametrize("name", PLANS)
def test_as_many_bytes_are_told_as_devices_hold(name, updates):
    (note,), held = told({"gradients": "host"}, PLANS[name], host_operators=updates)
    most = "at most " if len(held) > 1 else ""
    stays = f"{most}{units.size(max(held) - LOSS)} on each device are reduced once per step and stay there: "
    assert note.startswith(f"offload.gradients: {stays}")


def test_names_are_those_of_patterns():
    (note,), _ = told({"gradients": "host"}, PLANS["some whole"])
    assert note.endswith(": embedding.tokens.weight and 1 more")
    only = {"to": "host", "match": ["{layers,embedding.positions}.*"]}
    (note,), _ = told({"gradients": only}, PLANS["some whole"])
    assert note.endswith(": embedding.positions.weight")


@pytest.mark.parametrize("fraction", [1.0, 0.5])
def test_nothing_is_told_where_all_that_is_named_can_leave(fraction):
    """What a fraction leaves behind is left behind as it was asked for."""
    zero = {"mesh": {"data": 4}, "optimizer_sharding": {"zero": 2}}
    notes, (held,) = told({"gradients": {"to": "host", "fraction": fraction}}, zero)
    assert notes == []
    assert (held == LOSS) == (fraction == 1.0)
    only = {"to": "host", "match": ["layers.*"]}
    assert told({"gradients": only}, PLANS["some whole"])[0] == []


def test_where_nothing_can_leave_it_is_refused():
    with pytest.raises(PlanError, match="matches nothing of gradients that can be offloaded"):
        told({"gradients": "host"}, {"mesh": {"data": 4}, "optimizer_sharding": {"zero": 1}})
