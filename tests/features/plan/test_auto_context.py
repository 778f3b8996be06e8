"""Mode auto on meshes whose plan splits sequences: the other axes are searched around that."""

from __future__ import annotations

import json

import pytest

from simcluster.errors import PlanError
from simcluster.simulation import verify
from simcluster.simulation.compose import build_scenario
from simcluster.simulation.views import effective_strategies_of
from tests.support.auto_mode import built, pasted
from tests.support.scenarios import scenario

CONTEXT = [
    ("gpt", "recursive_programming", (("data", 2), ("context", 2)), {}),
    *(
        pytest.param(model, search, mesh, {"context": json.dumps(form)}, marks=pytest.mark.thorough)
        for model, search, mesh, form in [
            ("llama", "dynamic_programming", (("context", 2), ("tensor", 2)), "ring"),
            ("llama", "sharding_propagation", (("data", 2), ("context", 2)), "gather"),
            ("mixture", "dynamic_programming", (("context", 2), ("data", 2)), "gather"),
            ("llama", "dynamic_programming", (("pipeline", 2), ("data", 1), ("context", 2)), "gather"),
        ]
    ),
]


@pytest.mark.parametrize(("model", "search_mode", "mesh", "form"), CONTEXT)
def test_an_axis_of_the_sequence_role_splits_every_sequence_and_the_rest_is_searched(
    model, search_mode, mesh, form
):
    made = built(model, search_mode, mesh, **form)
    for instance in made.plan.logical.instances:
        for name, strategy in made.plan.strategies.of(instance.name).items():
            node = next(node for node in made.plan.logical.block_of(instance).nodes if node.name == name)
            axes = [axis for _, own in strategy.splits for axis in own]
            if "seq" in node.operator.dims().names:
                assert strategy.axes("seq")[0] == "context", name
            else:
                assert "context" not in axes, name
    again = build_scenario(pasted(made.scenario, effective_strategies_of(made.plan)))
    assert again.program.digest() == made.program.digest()
    assert verify(made.scenario).agrees


def test_a_sequence_that_an_axis_does_not_divide_is_refused():
    with pytest.raises(PlanError, match="chunks of equal length"):
        build_scenario(scenario({"data": 1, "context": 4}, devices=4, mode="auto", training={"seq_len": 12}))
