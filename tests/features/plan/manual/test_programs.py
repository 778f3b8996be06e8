"""What a program may say, what it is told otherwise, and what is shown of it."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

import pytest

from simcluster.errors import PlanError, ScenarioError
from simcluster.scenario import Scenario
from simcluster.simulation import build_scenario, simulate, verify
from simcluster.simulation.views.effective_strategies import effective_strategies_of
from simcluster.simulation.views.operator_layouts import layouts_document
from tests.support.manual import data_parallel, written


def refused(program, message, mesh=None, **told):
    with pytest.raises((PlanError, ScenarioError), match=message) as error:
        build_scenario(written(mesh or {"data": 4}, program, **told))
    assert all(each.path for each in error.value.problems)


def changed(place: int | str, **told):
    program = deepcopy(data_parallel(4))
    (program if place == "" else program["operators"][place]).update(told)
    return program


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (changed(0, op="matmull"), "operators.0.op: .*\n.*did you mean 'matmul'"),
        (changed(4, op="all_reduc"), "operators.4.op: .*\n.*did you mean 'all_reduce'"),
        (changed(4, group="wrld"), "operators.4.group: there is no group 'wrld'\n.*did you mean 'world'"),
        (changed(4, reduction="sun"), "operators.4.reduction: .*'total' .all_reduce.*sum"),
        (changed(4, axis=1), "operators.4.axis: .*unknown key"),
        (changed(4, inputs=["own", "fc1"]), "operators.4.inputs: .*reads 1 tensor, not 2"),
        (changed(4, ranks="0-9"), "operators.4.ranks: there is no rank 4: the last is 3"),
        (changed(4, ranks="x"), "operators.4.ranks: 'x' is not an index"),
        (changed(4, name="own"), "operators.4.name: .*something else is called so already"),
        (changed(4, op="all_gather"), "operators.4: .*has no dim 0|operators.4.inputs"),
        (changed(4, op="broadcast", root_rank=4), "operators.4.root_rank: a group of 4 ranks has no place 4"),
        (changed("", loss="lost"), "parallel.program.loss: nothing is called 'lost'"),
        (changed("", parameters={"w1": {}}), "the program has no part of .* 'layers.0.w2'"),
        (
            changed("", parameters={"w1": {}, "w2": {}, "w3": {}}),
            "parameters.w3: the reference has no parame",
        ),
        (changed("", feeds={"y": {}}), "feeds.y: the reference has no feed 'y'"),
        (changed("", gradients=[{"match": "v*"}]), r"gradients.0.match: no parameter fits 'v\*'"),
        (changed("", gradients=[{"degree": 2}]), "gradients.0.degree: a sum is not divided by anything"),
        (changed("", parameters={"w1": {"split": {1: "data"}}, "w2": {"split": {1: "x"}}}), "split.1: there"),
        (changed("", parameters={"w1": {"split": {5: "data"}}, "w2": {}}), r"split.5: fp32.* has no dim 5"),
        (changed("", groups={"pair": [[0, 1], [1, 2]]}), "groups.pair: rank 1 is in it 2 times"),
        (changed("", groups={"pair": [[0, 1], [2]]}), "groups.pair: .*equally large, not of 1 and 2"),
        (changed("", groups={"pair": [[0, 4]]}), "groups.pair: there is no rank 4: data 4 = 4 ranks"),
        (changed("", groups={"data": [[0, 1]]}), "groups.data: 'data' is a group already"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(program, message):
    refused(program, message)


def test_a_dim_that_does_not_divide():
    program = data_parallel(4)
    program["parameters"]["w1"] = {"split": {0: "three"}}
    program["groups"] = {"three": [[0, 1, 2]]}
    program["parameters"]["w2"] = {"split": {0: "three"}}
    refused(program, "dim 0 of .* does not divide over 3 ranks: 8 / 3")


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"recipe": "megatron"}, "recipe: mode manual inserts nothing"),
        ({"optimizer_sharding": {"zero": 1}}, "optimizer_sharding: mode manual inserts nothing"),
        ({"gradients_mean": True}, "gradients_mean"),
        ({"schedule": {"stages": [1]}}, "schedule.stages"),
        ({"schedule": {"p2p": "blocking"}}, "schedule.p2p"),
        ({"uneven": "pad"}, "uneven"),
        ({"context": "ring"}, "context: mode manual inserts nothing"),
        ({"roles": {"batch": "dta"}}, "roles.batch: the mesh has no axis 'dta'"),
        ({"roles": {"batsh": "data"}}, "roles.batsh: there is no role 'batsh'"),
        ({"training": {"optimizer": {"kind": "sgd", "clip": 1.0}}}, "training.optimizer.clip: mode manual"),
        ({"training": {"optimizer": "lamb"}}, "training.optimizer.kind: mode manual"),
    ],
)
def test_what_would_have_to_be_inserted(told, message):
    refused(data_parallel(4), message, **told)


def test_buckets_of_what_no_rank_does_are_noted():
    plan = build_scenario(
        written({"data": 4}, data_parallel(4), fusion={"all_gather": {"mode": "auto"}})
    ).plan
    assert plan.notes == ("fusion.all_gather fuses nothing: no weights are gathered",)


def test_a_program_in_another_mode():
    which = written({"data": 4}, data_parallel(4)).spec.model_dump(mode="json", exclude_unset=True)
    which["parallel"]["mode"] = "data"
    with pytest.raises(ScenarioError, match=r"parallel\.program: mode data runs no program"):
        Scenario.of(which)
    del which["parallel"]["program"]
    which["parallel"]["mode"] = "manual"
    with pytest.raises(ScenarioError, match="mode manual runs a program, and there is none"):
        Scenario.of(which)


def test_a_dim_that_is_no_number():
    program = data_parallel(4)
    program["feeds"]["x"] = {"split": {"rows": "data"}}
    refused(program, r"feeds\.x\.split\.rows")


def test_it_comes_back_from_json():
    """JSON has no numbers as keys."""
    which = written({"data": 4}, data_parallel(4))
    again = Scenario.of(which.spec.model_dump(mode="json", exclude_unset=True))
    assert build_scenario(again).program.digest() == build_scenario(which).program.digest()


def test_errors_point_into_the_file(tmp_path):
    path = tmp_path / "manual.yaml"
    text = Path("scenarios/manual-all-reduce-8-ascend-910.yaml").read_text()
    path.write_text(
        text.replace("group: world}\n      - {op: elementwise", "group: wrld}\n      - {op: elementwise")
    )
    with pytest.raises(PlanError, match=r"manual.yaml:\d+:\d+: there is no group 'wrld'"):
        build_scenario(Scenario.load(path))


def test_a_barrier_holds_everybody_back():
    """What comes behind it starts when the last has come."""
    program = data_parallel(4)
    program["operators"].insert(1, {"op": "barrier", "name": "wait"})
    which = written({"data": 4}, program)
    assert verify(which).agrees
    spans = simulate(which).spans
    names = [spans.names["operator"][number] for number in spans["operator"]]
    at = {name: place for place, name in enumerate(names)}
    assert spans["start"][at["program.wait"]] >= spans["end"][at["program.fc1"]]
    assert spans["start"][at["program.act"]] >= spans["end"][at["program.wait"]]


def test_layouts_show_what_a_rank_has():
    built = build_scenario(written({"data": 4}, data_parallel(4)))
    nodes = {node["name"]: node for block in layouts_document(built) for node in block["nodes"]}
    assert nodes["fc1"]["inputs"] == [["x", "(data, -)"], ["w1", "fp32[12, 8]"]]
    assert nodes["fc1"]["outputs"] == [["fc1.out", "fp32[4, 8]"]]
    assert nodes["fc1"]["strategy"] == ""
    assert nodes["total"]["bytes"] == 4
    assert nodes["total"]["seconds"] > 0
    with pytest.raises(PlanError, match="has no strategies"):
        effective_strategies_of(built.plan)
    with pytest.raises(PlanError, match="has no tensor maps"):
        layouts_document(built, maps=True)


def test_values_of_too_many_ranks():
    program = data_parallel(2, group="pair")
    program["groups"] = {"pair": [[rank, rank + 40] for rank in range(40)]}
    which = written({"twos": 2, "copies": 40}, program)
    simulate(which)
    with pytest.raises(PlanError, match="at most 64 ranks; this program is written for 80"):
        verify(which)


def test_folded_and_unfolded_take_equally_long():
    which = written({"data": 8}, data_parallel(8))
    folded, unfolded = (simulate(which, unfold=each) for each in (False, True))
    assert folded.documents["summary"]["step_time_s"] == unfolded.documents["summary"]["step_time_s"]
    assert unfolded.documents["summary"]["num_classes"] == 8
