"""Scenarios from files and from data: what they name, changes, and errors that point into the file."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from simcluster.errors import PlanError, ScenarioError
from simcluster.scenario import Scenario

TEXT = """\
simcluster: 1
name: small
cluster: {use: cpu-server, hosts: 4}
model: {layers: 4, hidden: 64, heads: 8, kv_heads: 4, ffn: 128, vocab: 256}
training: {global_batch: 8, micro_batch: 1, seq_len: 16, precision: fp32}
parallel:
  mesh: {pipeline: 2, data: 2, tensor: 2}
"""
DATA = {
    "simcluster": 1,
    "name": "small",
    "cluster": {"use": "cpu-server", "hosts": 4},
    "model": {"layers": 4, "hidden": 64, "heads": 8, "kv_heads": 4, "ffn": 128, "vocab": 256},
    "training": {"global_batch": 8, "micro_batch": 1, "seq_len": 16, "precision": "fp32"},
    "parallel": {"mesh": {"pipeline": 2, "data": 2, "tensor": 2}},
}


@pytest.fixture
def path(tmp_path):
    (tmp_path / "small.yaml").write_text(TEXT)
    return tmp_path / "small.yaml"


def refused(call, *arguments):
    with pytest.raises(ScenarioError) as caught:
        call(*arguments)
    return caught.value.problems


def test_a_file_and_its_data_are_the_same_scenario(path):
    assert Scenario.load(path).spec == Scenario.of(DATA).spec


def test_what_it_names(path):
    scenario = Scenario.load(str(path))
    assert scenario.name == "small"
    assert scenario.folder == path.parent
    assert scenario.cluster.num_devices == 8
    assert scenario.model.layers == 4
    assert scenario.framework.title == "an ideal framework"
    assert scenario.cluster is scenario.cluster


def test_plain_data_has_no_document():
    scenario = Scenario.of(DATA, "somewhere")
    assert scenario.document is None
    assert scenario.folder == Path("somewhere")
    error = PlanError("no", path="parallel.mesh")
    assert scenario.located(error) is error


@pytest.mark.parametrize(
    ("changes", "path_", "value"),
    [
        ([("training.micro_batch", "2")], "training.micro_batch", 2),
        ([("training.micro_batch", "2"), ("training.micro_batch", "4")], "training.micro_batch", 4),
        ([("model", "{use: llama3-8b}")], "model.use", "llama3-8b"),
        ([("parallel.schedule", "gpipe")], "parallel.schedule.kind", "gpipe"),
        ([("run.seed", "7")], "run.seed", 7),
        (
            [("parallel.mesh.tensor", "1"), ("parallel.mesh.data", "4")],
            "parallel.mesh",
            {"pipeline": 2, "data": 4, "tensor": 1},
        ),
    ],
)
def test_changes_replace_what_the_file_says(path, changes, path_, value):
    found = Scenario.load(path, changes).spec
    for key in path_.split("."):
        found = getattr(found, key)
    assert found == value


def test_changes_leave_the_file_alone(path):
    Scenario.load(path, [("training.micro_batch", "2")])
    assert path.read_text() == TEXT


def test_errors_point_at_their_place(path):
    path.write_text(TEXT.replace("seq_len: 16", "seq_len: -16").replace("heads: 8,", "haeds: 8,"))
    problems = refused(Scenario.load, path)
    assert [problem.where for problem in problems] == [f"{path}:4:32", f"{path}:5:54"]
    assert "did you mean 'heads'?" in problems[0].message
    assert (
        problems[1]
        .excerpt.splitlines()[0]
        .endswith("training: {global_batch: 8, micro_batch: 1, seq_len: -16, precision: fp32}")
    )


def test_errors_of_changes_name_the_change(path):
    (problem,) = refused(Scenario.load, path, [("training.seq_len", "many")])
    assert problem.where == "--set training.seq_len=many"


def test_errors_of_data_have_key_paths():
    (problem,) = refused(Scenario.of, {**DATA, "training": {**DATA["training"], "seq_len": 0}})
    assert (problem.path, problem.where) == ("training.seq_len", "")


def test_plan_errors_are_located(path):
    scenario = Scenario.load(path)
    (problem,) = scenario.located(PlanError("no", path="parallel.mesh.tensor")).problems
    assert problem.where == f"{path}:7:40"
    (problem,) = (
        Scenario.load(path, [("parallel.mesh.tensor", "4")])
        .located(PlanError("no", path="parallel.mesh.tensor"))
        .problems
    )
    assert problem.where == "--set parallel.mesh.tensor=4"


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("simcluster", "'simcluster' is missing"),
        ("name", "'name' is missing"),
        ("cluster", "'cluster' is missing"),
        ("model", "'model' is missing"),
        ("training", "'training' is missing"),
        ("parallel", "'parallel' is missing"),
    ],
)
def test_what_a_scenario_must_have(key, message):
    problems = refused(Scenario.of, {name: part for name, part in DATA.items() if name != key})
    assert problems[0].message.startswith(message)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"framework": "idael"}, "unknown framework 'idael'; did you mean 'ideal'?"),
        ({"expect": {"mfu": {}}}, "give min, max or both"),
        ({"expect": {"mfu": {"min": 2, "max": 1}}}, "min 2 is above max 1"),
        ({"simcluster": 2}, "2 is not accepted; write 1"),
        ({"name": ""}, "at least 1"),
        ({"job": {"steps": 3, "recovery": "restrat"}}, "unknown recovery policy 'restrat'"),
        ({"tenants": [{"hosts": 1}]}, "'scenario' is missing"),
        ({"colour": "red"}, "unknown key 'colour'"),
    ],
)
def test_what_a_scenario_must_not_have(changes, message):
    assert message in str(refused(Scenario.of, {**DATA, **changes})[0])


def test_a_config_is_looked_up_beside_the_scenario(tmp_path):
    (tmp_path / "config.json").write_text(
        '{"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4,'
        ' "intermediate_size": 128, "vocab_size": 100}'
    )
    (tmp_path / "s.yaml").write_text(TEXT.replace(TEXT.splitlines()[3], "model: {hf: config.json}"))
    assert Scenario.load(tmp_path / "s.yaml").model.layers == 2
    with pytest.raises(ScenarioError, match="there is no such file"):
        _ = Scenario.of({**DATA, "model": {"hf": "config.json"}}, tmp_path / "elsewhere").model


def test_a_scenario_from_another_process_can_be_changed_without_a_warning(recwarn):
    network = {"kind": "rail_optimised", "hosts_per_unit": 2}
    data = {
        "simcluster": 1,
        "name": "plan",
        "cluster": {"use": "dgx-h100", "hosts": 2, "network": network},
        "model": {"use": "gpt2"},
        "training": {"global_batch": 16, "micro_batch": 1, "seq_len": 8},
        "parallel": {"mesh": {"data": 16}},
    }
    written = pickle.loads(pickle.dumps(Scenario.of(data).spec))
    changed = Scenario(written, None, Path()).changed([("run.steps", "2")])
    assert (changed.spec.cluster.network.hosts_per_unit.value, changed.spec.run.steps) == (2, 2)
    assert not [warning for warning in recwarn if "Pydantic" in str(warning.message)]
