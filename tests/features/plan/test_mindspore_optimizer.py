"""Steps of MindSpore's parallel optimizer: memory, and the values of one device."""

from __future__ import annotations

import pytest

from simcluster.simulation import build_scenario, simulate, verify
from tests.support.scenarios import TINY, TINY_GPT, scenario, under

ALL = {"min_bytes": "0 B"}
"""Small parameters are sharded too."""


@pytest.mark.parametrize(
    ("form", "parameters", "gradients", "states"),
    [
        ({"mindspore": "level1"}, 4 / 4, 4, 8 / 4),
        ({"mindspore": "level1", "gradient_accumulation_shard": True}, 4 / 4, 4 / 4, 8 / 4),
        ({"mindspore": "level2"}, 4 / 4, 4 / 4, 8 / 4),
        ({"mindspore": "level1", "shard_size": 2}, 4 / 2, 4, 8 / 2),
        ({"mindspore": "level2", "shard_size": 2}, 4 / 2, 4 / 2, 8 / 2),
    ],
)
def test_memory_falls_by_what_others_hold(form, parameters, gradients, states):
    """Weights and the two states of Adam by (k - 1) / k, gradients where they are sharded."""
    built = build_scenario(scenario({"data": 4}, devices=4, optimizer_sharding={**form, **ALL}))
    found = dict.fromkeys(("parameters", "gradients", "optimizer_states"), 0)
    for each in built.program.parts[0].residents:
        if each.whole.shape != ():
            found[str(each.category)] += each.num_bytes
    number = built.plan.logical.num_parameters
    assert [held / number for held in found.values()] == [parameters, gradients, states]


@pytest.mark.parametrize(
    ("mesh", "form", "options"),
    [
        ({"data": 4}, {"mindspore": "level1", "shard_size": 2, **ALL}, {}),
        (
            {"data": 4, "tensor": 2},
            {"mindspore": "level3", "shard_size": 2, "whole": ["layers.1.*", "embedding.*"], **ALL},
            {"recipe": "megatron_sp"},
        ),
        (
            {"pipeline": 2, "data": 4},
            {"zero": 3, "shard_size": 2, "whole": ["head.*"]},
            {"model": TINY_GPT},
        ),
        (
            {"data": 2, "tensor": 2},
            {"mindspore": "level1", "gradient_accumulation_shard": True, **ALL},
            {"recipe": "megatron"},
        ),
    ],
)
def test_values(mesh, form, options):
    ranks = 1
    for size in mesh.values():
        ranks *= size
    found = verify(scenario(mesh, devices=ranks, optimizer_sharding=form, **options))
    assert found.agrees, found.fault or found.first_difference


def test_a_plan_that_is_made_small_keeps_its_groups():
    found = verify(
        scenario(
            {"data": 16, "tensor": 8},
            devices=8,
            model={**TINY, "hidden": 64, "kv_heads": 8},
            recipe="megatron",
            optimizer_sharding={"mindspore": "level2", "shard_size": 4, "axes": "data"},
        )
    )
    assert found.agrees, found.fault or found.first_difference
    assert ("smallest sharded parameter", "65,536 B", "0 B") in found.changes


def residents(built):
    found = dict.fromkeys(("parameters", "gradients", "optimizer_states"), 0)
    for each in built.program.parts[0].residents:
        if each.whole.shape != ():
            found[str(each.category)] += each.num_bytes
    return found


@pytest.mark.parametrize("level", ["level1", "level2", "level3"])
@pytest.mark.parametrize(
    "more", [{"min_bytes": "1 GiB"}, {"min_bytes": "0 B", "whole": ["*"]}], ids=["small", "spared"]
)
def test_parameters_that_stay_whole_are_as_without_sharding(level, more):
    """fp32, cast where they are read, their gradients added as the framework does: no copy of 16 bits."""
    form = {"mindspore": level, "gradient_accumulation_shard": True, **more}
    scenarios = [
        under(scenario({"data": 4}, devices=4, **sharding), weights="cast_twice", accumulate=[])
        for sharding in ({"optimizer_sharding": form}, {})
    ]
    whole, plain = map(build_scenario, scenarios)
    number = plain.plan.logical.num_parameters
    assert residents(whole) == {
        "parameters": 4 * number,
        "gradients": 4 * number,
        "optimizer_states": 8 * number,
    }
    assert residents(whole) == residents(plain)
    steps = [simulate(which).documents["summary"]["step_time_s"] for which in scenarios]
    assert steps[0] == steps[1]


@pytest.mark.parametrize("level", ["level1", "level2", "level3"])
def test_values_where_some_parameters_stay_whole(level):
    form = {"mindspore": level, "min_bytes": "0 B", "whole": ["layers.1.*", "embedding.*"]}
    which = scenario({"data": 4}, devices=4, optimizer_sharding=form)
    found = verify(under(which, weights="cast_twice", accumulate=[]))
    assert found.agrees, found.fault or found.first_difference
