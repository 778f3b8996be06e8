"""Sharding from Python: graph.shard as MindSpore's, and plans that are those of the same YAML."""

from __future__ import annotations

import pytest

import simcluster
from simcluster import MindSporeLayout, PlanError, ScenarioError
from simcluster.simulation.compose.build import build_scenario
from tests.support.scenarios import scenario

MESH = {"data": 2, "tensor": 4}
UP = "layers.*.mlp.up"


def graph(**options):
    return simcluster.graph(scenario(MESH, recipe="data", micro_batch=4, **options))


def same(sharded, **entry):
    written = scenario(MESH, recipe="data", micro_batch=4, strategies=[{"match": UP, **entry}])
    return build_scenario(sharded.scenario).program.digest() == build_scenario(written).program.digest()


def test_strategies_from_python_are_those_of_yaml():
    numbers = ((4, 1, 1), (1, 2), (1, 2))
    assert same(graph().shard(UP, numbers), **{"in": "((4, 1, 1), (1, 2), (1, 2))"})
    axes = (("data", 1, None), (1, "tensor"), None)
    out = ((("data", "tensor"), 1, 1), None)
    written = {"in": [["data", 1, 1], [1, "tensor"], None], "out": [[["data", "tensor"], 1, 1], None]}
    assert same(graph().shard(UP, axes, out_strategy=out), **written)


def test_layout_objects_are_a_device_matrix_with_aliases():
    layout = MindSporeLayout((2, 2, 2), ("dp", "sp", "mp"))
    placed = (layout(("dp", "sp"), "None", "None"), layout("None", "mp"), layout("None", "mp"))
    written = {
        "layout": {"device_matrix": [2, 2, 2], "alias_name": ["dp", "sp", "mp"]},
        "in": [[["dp", "sp"], 1, 1], [1, "mp"], [1, "mp"]],
        "out": [["dp", 1, "mp"], None],
    }
    assert same(graph().shard(UP, placed, (layout("dp", "None", "mp"), None)), **written)


def test_splits_and_switches():
    assert same(graph().shard(UP, split={"ffn": "tensor"}), split={"ffn": "tensor"})
    down = "layers.*.mlp.down"
    found = graph().shard(down, split={"ffn": "tensor"}, forward_reduce_scatter=True)
    assert found.scenario.spec.parallel.strategies[-1].forward_reduce_scatter
    right = graph().shard(UP, ((1, 1, 1), (1, 2), (1, 2)), repeated_on="right")
    assert same(right, **{"in": [[1, 1, 1], [1, 2], [1, 2]], "repeated_on": "right"})


def test_a_graph_is_never_changed_and_later_strategies_win():
    first = graph()
    second = first.shard("layers.*.mlp.*", split={"seq": "tensor"})
    third = second.shard(UP, split={"ffn": "tensor"})
    assert first.scenario.spec.parallel.strategies == ()
    chosen = build_scenario(third.scenario).plan.strategies.of("layers.0")
    assert chosen["mlp.up"].axes("ffn") == ("tensor",)
    assert chosen["mlp.down"].axes("seq") == ("tensor",)


def test_a_graph_is_simulated_and_verified_like_a_scenario():
    found = graph().shard(UP, split={"ffn": "tensor"})
    assert simcluster.simulate(found).step_time_s > 0
    assert simcluster.verify(found).agrees


def test_a_graph_tells_its_operators_and_their_dims():
    found = graph()
    assert found.operators["layers.3.mlp.down"] == (
        "matmul",
        (("batch", "seq", "ffn"), ("ffn", "hidden")),
        (("batch", "seq", "hidden"),),
    )
    text = str(found)
    assert "layers.*.mlp.down  matmul  (batch, seq, ffn), (ffn, hidden) -> (batch, seq, hidden)" in text
    assert text.count("mlp.down") == 1


def test_what_is_no_strategy_is_refused():
    with pytest.raises(ScenarioError, match="a strategy needs one of split and in"):
        graph().shard(UP)
    layout, other = MindSporeLayout((8,), ("a",)), MindSporeLayout((8,), ("b",))
    with pytest.raises(ScenarioError, match="different device matrices"):
        graph().shard(UP, (layout("None", "None", "None"), other("None", "b"), None))
    with pytest.raises(ScenarioError, match="a layout of no tensor"):
        graph().shard(UP, (layout, None, None))
    with pytest.raises(PlanError, match="3 inputs, but 1 given"):
        simcluster.simulate(graph().shard(UP, ((4, 1, 1),)))
    with pytest.raises(ScenarioError, match="mode data takes no strategies"):
        simcluster.graph(scenario({"data": 2}, mode="data")).shard(UP, split={"batch": "data"})
