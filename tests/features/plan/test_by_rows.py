"""Gradients by rows: when they are, what they move, and that one device computes the same."""

from __future__ import annotations

import pytest

from simcluster.errors import PlanError, ScenarioError
from simcluster.model import Phase, Role
from simcluster.model.operators.sparse_updates import SparseUpdate
from simcluster.scenario import Scenario
from simcluster.simulation.compose.build import build_scenario
from simcluster.simulation.verification.single_device_comparison import verify

GROUPS = [
    {"match": "embedding.wide.*", "kind": "ftrl", "learning_rate": 0.05},
    {"match": "embedding.deep.*", "kind": "lazy_adam"},
]
BY_ROWS = {"match": "embedding.{wide,deep}.tokens", "split": {"vocab": "data"}}
BY_COLUMNS = {"match": "embedding.deep.tokens", "split": {"batch": "data", "columns": "tensor"}}


def wide_deep(devices: int = 4, groups=GROUPS, mesh=None, model=None, **more):
    parallel = {"mesh": mesh or {"data": devices}, **more.pop("parallel", {})}
    training = {
        "global_batch": 64 * devices,
        "micro_batch": 64,
        "seq_len": 1,
        "precision": "bf16",
        "optimizer": {"kind": "adam", "groups": groups},
        **more.pop("training", {}),
    }
    host = {"use": "cpu-server", "devices": devices, "network": {"nics": devices}}
    data = {
        "simcluster": 1,
        "name": "wide and deep",
        "cluster": {"host": host, "hosts": 1},
        "model": model or {"use": "wide-deep", "vocab": 1000},
        "training": training,
        "parallel": parallel,
    }
    return Scenario.of(data)


def updates(plan):
    return {
        node.name: node.operator
        for block in plan.graph.blocks.values()
        for node in block.phase(Phase.END)
        if node.name.endswith(".update")
    }


def test_tables_are_updated_by_rows_and_everything_else_as_a_whole():
    found = updates(build_scenario(wide_deep()).plan)
    by_rows = {name: each.update.kind for name, each in found.items() if isinstance(each, SparseUpdate)}
    assert by_rows == {"wide.weight.update": "ftrl", "deep.weight.update": "lazy_adam"}
    assert found["wide.bias.update"].kind == "ftrl"
    assert found["dense.weight.update"].kind == "adam"


def test_replicated_tables_gather_ids_and_rows_of_all_samples_and_reduce_nothing():
    plan = build_scenario(wide_deep()).plan
    block = next(block for block in plan.graph.blocks.values() if block.row_gradients)
    rows, ids = block.row_gradients["deep.weight"]
    assert block.values[ids].type.shape == (256, 39)
    assert block.values[rows].type.shape == (256, 39, 80)
    assert {block.values[name].role for name in (rows, ids)} == {Role.ACCUMULATOR}
    for name in (rows, ids):
        layout = block.values[name].layout
        assert not layout.axes and not layout.partial
    moved = [node for node in block.phase(Phase.BACKWARD, Phase.END) if not hasattr(node.operator, "work")]
    assert {str(node.operator.kind) for node in moved} == {"all_gather", "all_reduce"}
    reduced = [node.origin for node in moved if str(node.operator.kind) == "all_reduce"]
    assert not [name for name in reduced if "weight" in name]


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"parallel": {"strategies": [BY_ROWS]}},
        {
            "mesh": {"data": 2, "tensor": 2},
            "parallel": {"strategies": [BY_COLUMNS]},
            "training": {"global_batch": 128},
        },
        {"parallel": {"optimizer_sharding": {"zero": 1}}},
        {"parallel": {"optimizer_sharding": {"zero": 3}}},
        {"devices": 1, "training": {"precision": "fp32"}},
    ],
    ids=["replicated", "rows", "columns", "zero1", "zero3", "one device"],
)
def test_values_are_those_of_one_device(more):
    found = verify(wide_deep(**more))
    assert found.agrees, found.first_difference or found.fault
    assert {each.name for each in found.comparisons if each.what == "update"} >= {
        "embedding.wide.weight",
        "embedding.deep.weight",
    }


def test_a_mutant_that_forgets_other_ranks_rows_is_caught(monkeypatch):
    honest = SparseUpdate.evaluate

    def forgetful(self, inputs, region):
        weights, grads, ids, *states = inputs
        half = len(ids) // 2 or 1
        return honest(self, (weights, grads[:half], ids[:half], *states), region)

    scenario = wide_deep()
    plain = verify(scenario)
    assert plain.agrees

    # The oracle runs first with the honest rule, so only ranks forget.
    from simcluster.values import Replay

    run = Replay.run

    def run_forgetful(self):
        monkeypatch.setattr(SparseUpdate, "evaluate", forgetful)
        try:
            run(self)
        finally:
            monkeypatch.setattr(SparseUpdate, "evaluate", honest)

    monkeypatch.setattr(Replay, "run", run_forgetful)
    assert not verify(scenario).agrees


def test_micro_batches_cannot_add_up_pairs():
    with pytest.raises(PlanError, match="2 micro-batches or slices cannot add up the gradient of 'embedding"):
        build_scenario(wide_deep(training={"global_batch": 512}))


def test_no_norm_is_taken_of_pairs():
    with pytest.raises(PlanError, match="of which no norm is taken"):
        build_scenario(wide_deep(training={"optimizer": {"kind": "adam", "groups": GROUPS, "clip": 1.0}}))


def test_a_group_of_nothing_is_refused_with_the_nearest_name():
    groups = [{"match": "embedding.wide.weigth", "kind": "ftrl"}]
    with pytest.raises(PlanError, match=r"'embedding\.wide\.weigth' matches no parameter") as caught:
        build_scenario(wide_deep(groups=groups))
    assert caught.value.problems[0].path == "training.optimizer.groups.0.match"
    assert "embedding.wide.weight" in (caught.value.problems[0].hint or "")


def test_a_tied_table_is_changed_as_a_whole_and_that_is_told():
    model = {"family": "gpt", "layers": 2, "hidden": 32, "heads": 4, "vocab": 128, "max_positions": 16}
    scenario = wide_deep(2, groups=[], model=model, training={"optimizer": "lazy_adam"})
    plan = build_scenario(scenario).plan
    assert not [each for each in updates(plan).values() if isinstance(each, SparseUpdate)]
    assert any("lazy_adam changes all rows of embedding.tokens.weight" in note for note in plan.notes)


def test_later_groups_win():
    groups = [{"match": "*", "kind": "sgd"}, {"match": "layers.*.bias", "kind": "momentum"}]
    graph = build_scenario(wide_deep(groups=groups)).plan.graph
    kinds = {
        f"{instance.name}.{node.name}": node.operator.kind
        for instance, node in graph.nodes()
        if node.name.endswith(".update")
    }
    assert kinds["layers.0.dense.bias.update"] == "momentum"
    assert {kind for name, kind in kinds.items() if not name.startswith("layers")} == {"sgd"}
    assert kinds["layers.0.dense.weight.update"] == kinds["head.dense.bias.update"] == "sgd"


def test_groups_are_refused_where_a_program_is_written_by_hand():
    data = {
        "simcluster": 1,
        "name": "manual",
        "cluster": {"host": {"use": "cpu-server", "devices": 2, "network": {"nics": 2}}, "hosts": 1},
        "model": {"use": "wide-deep", "vocab": 1000},
        "training": {"global_batch": 4, "micro_batch": 2, "seq_len": 1, "optimizer": "ftrl"},
        "parallel": {"mode": "manual", "mesh": {"data": 2}, "program": {"operators": []}},
    }
    with pytest.raises((PlanError, ScenarioError)):
        build_scenario(Scenario.of(data))
