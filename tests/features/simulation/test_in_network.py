"""Reduction in the network in whole runs: chosen where it can, refused where it cannot, exactly folded."""

from __future__ import annotations

from copy import deepcopy

import pytest

from simcluster.errors import PlanError
from simcluster.program import InstructionKind
from simcluster.program.communication.collective_overrides import CollectiveRequests
from simcluster.scenario import Scenario
from simcluster.simulation import build_scenario, simulate
from tests.support.covering import quick
from tests.support.folding import assert_folded_is_unfolded

REDUCES = {"operations": ["all_reduce"], "formats": ["bf16", "fp32"]}
LEAVES = {"kind": "leaf_spine", "hosts_per_leaf": 2, "oversubscription": 2, "reduces": REDUCES}
DATA = {
    "simcluster": 1,
    "name": "reducing",
    "cluster": {"host": {"use": "dgx-h100", "devices": 4}, "hosts": 4, "network": LEAVES},
    "model": {"layers": 2, "hidden": 1024, "heads": 8, "ffn": 4096, "vocab": 1024},
    "training": {"global_batch": 8, "micro_batch": 1, "seq_len": 512, "precision": "bf16"},
    "parallel": {"mesh": {"data": 8, "tensor": 2}, "recipe": "megatron"},
}


def scenario(kind: str = "auto", network=LEAVES, changes=()) -> Scenario:
    """Gradients are reduced by ``kind``; tensor groups are inside hosts."""
    data = deepcopy(DATA)
    data["cluster"] |= {"network": network, "changes": list(changes)}
    if kind != "auto":
        data["collectives"] = {"overrides": [{"match": pattern(), "algorithm": kind}]}
    return Scenario.of(data)


def gradients(built) -> list:
    """The all-reduces over data ranks, with the way each is done."""
    return [
        each
        for code in built.program.codes
        for each in code.instructions
        if each.action is InstructionKind.COLLECTIVE
        and each.group == ("data",)
        and each.operation == "all_reduce"
    ]


def pattern() -> str:
    """What fits the all-reduces of gradients alone."""
    names = {each.name for each in gradients(build_scenario(scenario()))}
    assert names
    return "*{" + ",".join(sorted(names)) + "}"


def took(which: Scenario) -> float:
    return simulate(which).documents["summary"]["step_time_s"]


def test_a_run_takes_it_where_it_is_faster():
    plain = {key: value for key, value in LEAVES.items() if key != "reduces"}
    assert took(scenario()) < took(scenario(network=plain))


@pytest.mark.parametrize("kind", quick(["collnet", "nvls"], "collnet"))
def test_it_is_forced_and_folded(kind):
    which = scenario(kind)
    assert_folded_is_unfolded(which)
    assert took(which) > 0


def test_it_is_folded_beside_a_slow_link():
    slow = [{"link": "leaf.1.up", "bandwidth": 0.3}]
    which = scenario("collnet", changes=slow)
    assert took(which) > took(scenario("collnet"))
    assert_folded_is_unfolded(which)


def test_it_is_refused_where_the_network_cannot():
    plain = {key: value for key, value in LEAVES.items() if key != "reduces"}
    with pytest.raises(PlanError, match="the network does not reduce; write 'reduces'"):
        simulate(scenario("collnet", network=plain))
    only = LEAVES | {"reduces": REDUCES | {"formats": ["int32"]}}
    with pytest.raises(PlanError, match="the network reduces int32, not "):
        simulate(scenario("collnet", network=only))
    assert took(scenario(network=only)) == took(scenario(network=plain))


def test_instructions_say_what_they_add_up():
    built = build_scenario(scenario())
    wants = CollectiveRequests(built.program, built.plan.execution.algorithms)
    found = {wants.of(each).format for each in gradients(built)}
    assert found and found <= {"bf16", "fp32"}
