"""``tenants:`` as a document: what is read, and what every mistake gets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from simcluster.baseline import bounds_of
from simcluster.cli.commands.run.scenario_yaml import scenario_text
from simcluster.cluster.spec.index_lists import format_index_list, parse_index_list
from simcluster.errors import PlanError, ScenarioError
from simcluster.scenario import Scenario
from simcluster.simulation import build_scenario
from simcluster.simulation.views.plan_description import plan_document

OTHER = """\
simcluster: 1
name: the other
cluster: {use: dgx-a100, hosts: 2}
model: {layers: 2, hidden: 32, heads: 4, ffn: 64, vocab: 100}
training: {global_batch: 16, micro_batch: 1, seq_len: 16, precision: fp32}
parallel: {mesh: {data: 16}}
expect: {step_time: {max: 1}}
"""
TEXT = """\
simcluster: 1
name: mine
cluster: {use: dgx-h100, hosts: 8}
model: {layers: 2, hidden: 32, heads: 4, ffn: 64, vocab: 100}
training: {global_batch: 16, micro_batch: 1, seq_len: 16, precision: fp32}
parallel: {mesh: {data: 16}}
tenants:
  - {scenario: parts/other.yaml, hosts: 2-3}
  - name: inside
    hosts: [7, 5]
    scenario:
      model: {layers: 2, hidden: 32, heads: 4, ffn: 64, vocab: 100}
      training: {global_batch: 16, micro_batch: 1, seq_len: 16, precision: fp32}
      parallel: {mesh: {data: 16}}
"""


@pytest.fixture
def path(tmp_path):
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "other.yaml").write_text(OTHER)
    (tmp_path / "mine.yaml").write_text(TEXT)
    return tmp_path / "mine.yaml"


def changed(path, old, new, file="mine.yaml"):
    target = path.parent / file
    assert old in target.read_text()
    target.write_text(target.read_text().replace(old, new))


def refused(path, error=ScenarioError):
    with pytest.raises(error) as caught:
        build_scenario(Scenario.load(path))
    return caught.value.problems


def test_tenants_are_scenarios_on_parts_of_one_cluster(path):
    scenario = Scenario.load(path)
    other, inside = scenario.tenants
    assert (other.name, inside.name) == ("the other", "inside")
    assert other.folder == path.parent / "parts"
    assert scenario.cluster.hosts.tolist() == [0, 1]
    assert other.cluster.hosts.tolist() == [2, 3]
    assert inside.cluster.hosts.tolist() == [7, 5]
    assert scenario.cluster.topology is other.cluster.topology is inside.cluster.topology
    assert inside.cluster.devices_of(np.array([0, 7, 8])).tolist() == [56, 63, 40]
    assert [each.scenario.name for each in build_scenario(scenario).tenants] == ["the other", "inside"]


def test_what_a_tenants_file_says_of_its_hardware_is_not_used_silently(path):
    (note,) = prepare_notes(path)
    assert note == "tenant 'the other' runs on dgx-h100, not on dgx-a100 as in its file"
    changed(path, "dgx-a100, hosts: 2", "dgx-h100, hosts: 2", "parts/other.yaml")
    assert prepare_notes(path) == []
    slow = "dgx-h100, hosts: 2, changes: [{device: 1, compute: 0.5}]"
    changed(path, "dgx-h100, hosts: 2", slow, "parts/other.yaml")
    (note,) = prepare_notes(path)
    assert note == "tenant 'the other' runs without the cluster.changes of its file"


def prepare_notes(path):
    notes = plan_document(build_scenario(Scenario.load(path)))["notes"]
    return [note for note in notes if "tenant" in note]


def test_own_hosts_are_where_the_scenario_runs(path):
    assert Scenario.load(path, [("cluster.own_hosts", "0, 6")]).cluster.hosts.tolist() == [0, 6]
    assert Scenario.load(path, [("cluster.own_hosts", "[6, 0]")]).cluster.hosts.tolist() == [6, 0]
    alone = Scenario.load(path, [("tenants", "[]"), ("cluster.own_hosts", "6-7")])
    assert alone.cluster.hosts.tolist() == [6, 7]
    assert alone.tenants == ()


@pytest.mark.parametrize(
    ("old", "new", "where", "message"),
    [
        ("hosts: 2-3", "hosts: 1-2", "8:", "1-2 of tenant 0 and 0-1 of this scenario have 1 in common"),
        ("hosts: [7, 5]", "hosts: 3-4", "10:", "3-4 of tenant inside and 2-3 of tenant 0 have 3 in common"),
        ("hosts: [7, 5]", "hosts: [7, 8]", "10:", "there is no host 8; the last of 8 is 7"),
        ("hosts: [7, 5]", "hosts: [7, 7]", "10:", "7 is listed twice"),
        ("hosts: [7, 5]", "hosts: 7-5", "10:", "'7-5' counts down; write 5-7"),
        ("hosts: [7, 5]", "hosts: seven", "10:", "'seven' is not an index"),
        ("hosts: [7, 5]", "hosts: []", "10:", "the list has 0 items; write at least 1"),
        ("parts/other.yaml", "parts/othre.yaml", "8:", "did you mean"),
        ("hosts: 2-3", "hosts: 2-4", "8:", "3 hosts x 8 devices = 24, but 'parts/other.yaml' is for 16"),
        ("name: inside", "name: the other", "9:", "there is another 'the other'"),
        ("  - name: inside\n    hosts", "  - hosts", "9:", "needs a name"),
        ("hosts: 2-3}", "hosts: 2-3, step: 1}", "8:", "unknown key 'step'"),
        ("hosts: 8}", "hosts: 8, own_hosts: 8-9}", "3:", "there is no host 9; the last of 8 is 7"),
        ("name: mine\ncluster: {use: dgx-h100, hosts: 8}", "name: mine\ncluster: {use: dgx-h100, hosts: 1}",
         "6:", "16 ranks need 2 hosts of 8 devices, of 1"),
        ("      parallel: {mesh: {data: 16}}", "      parallel: {mesh: {dat: 0}}", "14:", "at least 1"),
        ("    scenario:\n", "    scenario:\n      job: {}\n", "12:", "not supported yet"),
    ],
)  # fmt: skip
def test_mistakes_are_shown_with_their_place(path, old, new, where, message):
    changed(path, old, new)
    (problem, *_) = refused(path)
    assert message in str(problem)
    assert problem.where.startswith(f"{path}:{where}"), problem.where


def test_mistakes_in_a_tenants_file_are_shown_there(path):
    changed(path, "seq_len: 16", "seq_len: many", "parts/other.yaml")
    (problem,) = refused(path)
    assert problem.where == f"{path.parent / 'parts' / 'other.yaml'}:5:55"
    changed(path, "seq_len: many", "seq_len: 16", "parts/other.yaml")
    changed(path, "expect:", "tenants: [{scenario: more.yaml, hosts: 1}]\nexpect:", "parts/other.yaml")
    (problem,) = refused(path)
    assert "a tenant has no tenants" in problem.message


def test_plans_that_do_not_fit_their_hosts_are_shown_where_they_stand(path):
    changed(path, "      parallel: {mesh: {data: 16}}", "      parallel: {mesh: {data: 8}}")
    (problem, *_) = refused(path, PlanError)
    assert problem.where.startswith(f"{path}:14:")
    assert "data 8 = 8, but its hosts have 16 devices" in problem.message
    changed(path, "parallel: {mesh: {data: 16}}", "parallel: {mesh: {data: 4}}", "parts/other.yaml")
    (problem, *_) = refused(path, PlanError)
    assert problem.where.startswith(f"{path.parent / 'parts' / 'other.yaml'}:6:")


def test_without_tenants_nothing_is_slowed(path):
    assert list(bounds_of(Scenario.load(path, [("expect", "{slowdown: {max: 1.5}}")]))) == ["slowdown"]
    with pytest.raises(ScenarioError, match="only a scenario with tenants has a slowdown"):
        bounds_of(Scenario.load(path, [("tenants", "[]"), ("expect", "{slowdown: {max: 1.5}}")]))


def test_a_written_scenario_finds_its_tenants_from_anywhere(path, tmp_path):
    scenario = Scenario.load(path)
    (tmp_path / "away").mkdir()
    target = tmp_path / "away" / "copy.yaml"
    target.write_text(scenario_text(scenario, []))
    assert [each.name for each in Scenario.load(target).tenants] == ["the other", "inside"]


@pytest.mark.parametrize("text", ["0-3, 8", "5", "7, 3-4", "0"])
def test_index_lists_are_read_as_they_are_told(text):
    assert format_index_list(parse_index_list(text)) == text


def test_schema_knows_both_forms():
    from simcluster.document import json_schema
    from simcluster.scenario.spec import ScenarioSpec

    tenant = json_schema(ScenarioSpec)["$defs"]["TenantSpec"]["properties"]
    assert {"$ref": "#/$defs/TenantWorkloadSpec"} in tenant["scenario"]["anyOf"]
    assert {each["type"] for each in tenant["hosts"]["anyOf"]} == {"integer", "string", "array"}
    assert Path("scenarios/tenants-576-h100.yaml").exists()


def test_auto_is_what_tenants_leave_and_what_a_tenant_has(path):
    """Eight hosts of eight devices, four of them given away."""
    changed(path, "parallel: {mesh: {data: 16}}\ntenants", "parallel: {mesh: {data: auto}}\ntenants")
    changed(path, "      parallel: {mesh: {data: 16}}", "      parallel: {mesh: {tensor: 2, data: auto}}")
    hosts = "{scenario: parts/other.yaml, hosts: 6-7}"
    changed(path, "{scenario: parts/other.yaml, hosts: 2-3}", hosts)
    changed(path, "hosts: [7, 5]", "hosts: [5, 4]")
    changed(path, "training: {global_batch: 16", "training: {global_batch: 32")
    scenario = Scenario.load(path)
    assert scenario.spec.parallel.sizes == {"data": 32}
    assert [each.spec.parallel.sizes for each in scenario.tenants] == [{"data": 16}, {"tensor": 2, "data": 8}]
    assert Scenario.load(path, [("cluster.own_hosts", "1-2")]).spec.parallel.sizes == {"data": 16}


def test_auto_that_the_hosts_of_a_tenant_do_not_divide_into_is_refused(path):
    changed(path, "      parallel: {mesh: {data: 16}}", "      parallel: {mesh: {tensor: 3, data: auto}}")
    with pytest.raises(ScenarioError, match="tensor 3 = 3 leaves no whole number of 16 devices") as caught:
        Scenario.load(path).tenants  # noqa: B018
    assert "mine.yaml:" in str(caught.value)
