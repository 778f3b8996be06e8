"""The effective strategies, pasted into the scenario, give the same Program."""

from __future__ import annotations

import pytest

from simcluster.scenario import Scenario
from simcluster.simulation.compose.build import build_scenario
from simcluster.simulation.views.effective_strategies import effective_strategies_of
from simcluster.simulation.views.operator_layouts import layouts_document
from tests.support.covering import quick_at
from tests.support.scenarios import TINY, TINY_GPT, scenario

MESH = {"pipeline": 2, "data": 2, "tensor": 2}


@pytest.mark.parametrize("model", quick_at([TINY, TINY_GPT], 1), ids=["llama", "gpt"])
@pytest.mark.parametrize("recipe", ["data", "megatron", "megatron_sp"])
def test_pasted_strategies_give_the_same_program(recipe, model):
    mesh = MESH if recipe != "data" else {"pipeline": 2, "data": 2}
    before = build_scenario(scenario(mesh, model=model, recipe=recipe))
    pasted = build_scenario(
        scenario(mesh, model=model, recipe="data", strategies=effective_strategies_of(before.plan))
    )
    assert pasted.program.digest() == before.program.digest()
    assert pasted.plan.strategies.unconfigured == 0


def test_strategies_that_differ_between_layers():
    own = [{"match": "layers.{0,2}.mlp.{up,activation,down}", "split": {"ffn": "tensor"}}]
    before = build_scenario(scenario({"tensor": 2}, recipe="data", strategies=own))
    written = effective_strategies_of(before.plan)
    assert {"match": "layers.0.mlp.up", "split": {"ffn": "tensor", "batch": []}} in written
    pasted = build_scenario(scenario({"tensor": 2}, recipe="data", strategies=written))
    assert pasted.program.digest() == before.program.digest()


def test_shipped_scenarios_round_trip():
    which = Scenario.load("scenarios/quickstart.yaml")
    before = build_scenario(which)
    spec = which.spec.model_dump(mode="json", exclude_unset=True)
    spec["parallel"]["strategies"] = effective_strategies_of(before.plan)
    assert build_scenario(Scenario.of(spec)).program.digest() == before.program.digest()


def test_layouts_say_why_every_collective_is_there():
    built = build_scenario(scenario(MESH, recipe="megatron_sp"))
    movements = [node for block in layouts_document(built) for node in block["nodes"] if "why" in node]
    assert movements
    assert all(node["why"] and node["bytes"] > 0 for node in movements)
    assert all(node["seconds"] > 0 for node in movements if not node["kind"].startswith("slice"))
