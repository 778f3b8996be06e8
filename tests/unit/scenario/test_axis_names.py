"""Short names of axes are read as the long ones, unless the scenario has a use for them."""

from __future__ import annotations

import pytest

from simcluster.errors import ScenarioError
from simcluster.scenario import Scenario
from simcluster.simulation import simulate

TEXT = """
simcluster: 1
name: short
cluster: {host: {use: cpu-server, devices: 2}, hosts: 8}
model: {layers: 4, hidden: 64, heads: 4, ffn: 128, vocab: 64}
training: {global_batch: 8, micro_batch: 1, seq_len: 16, precision: fp32}
parallel:
  mesh: {pp: 2, dp: 2, cp: 2, tp: 2}
"""
LONG = (
    TEXT.replace("pp:", "pipeline:")
    .replace("dp:", "data:")
    .replace("cp:", "context:")
    .replace("tp:", "tensor:")
)


def loaded(tmp_path, text, *changes):
    path = tmp_path / "short.yaml"
    path.write_text(text)
    return Scenario.load(path, changes)


def mesh(scenario):
    return list(scenario.spec.parallel.mesh.items())


def test_they_are_the_long_ones_in_their_order(tmp_path):
    short, long = loaded(tmp_path, TEXT), loaded(tmp_path, LONG)
    assert mesh(short) == [("pipeline", 2), ("data", 2), ("context", 2), ("tensor", 2)]
    assert (
        simulate(short).documents["summary"]["step_time_s"]
        == simulate(long).documents["summary"]["step_time_s"]
    )
    data = long.document.data | {"parallel": {"mesh": {"pp": 2, "dp": 2, "cp": 2, "tp": 2}}}
    assert mesh(Scenario.of(data)) == mesh(long)


@pytest.mark.parametrize("text", [TEXT, LONG])
@pytest.mark.parametrize("names", [("tp", "dp"), ("tensor", "data")])
def test_settings_may_use_either(tmp_path, text, names):
    inner, outer = names
    found = loaded(tmp_path, text, (f"parallel.mesh.{inner}", "4"), (f"parallel.mesh.{outer}", "1"))
    assert mesh(found) == [("pipeline", 2), ("data", 1), ("context", 2), ("tensor", 4)]


def test_other_keys_that_name_axes(tmp_path):
    found = loaded(
        tmp_path, TEXT + "  overlap: {tp: {chunks: 2}}\n  optimizer_sharding: {zero: 1, axes: [dp]}\n"
    )
    assert list(found.spec.parallel.overlap) == ["tensor"]
    assert found.spec.parallel.optimizer_sharding.axes == ("data",)


@pytest.mark.parametrize(
    "use",
    [
        "  roles: {batch: [dp]}\n",
        "  strategies: [{match: layers.*.mlp.up, split: {ffn: dp}}]\n",
    ],
)
def test_a_name_that_the_scenario_uses_stays(tmp_path, use):
    assert mesh(loaded(tmp_path, TEXT + use)) == [("pipeline", 2), ("dp", 2), ("context", 2), ("tensor", 2)]


@pytest.mark.parametrize("axes", ["tp: 2, tensor: 2", "tensor: 2, tp: 2"])
def test_one_axis_under_two_names_is_refused(tmp_path, axes):
    with pytest.raises(ScenarioError) as caught:
        loaded(tmp_path, TEXT.replace("tp: 2", axes))
    assert "'tp' is read as 'tensor', which is written too" in str(caught.value)
    assert "short.yaml:8:" in str(caught.value)


@pytest.mark.parametrize(("written", "kind"), [("1F1B", "1f1b"), ("GPipe", "gpipe"), ("zb-h1", "zb_h1")])
def test_schedules_however_they_are_spelled(tmp_path, written, kind):
    for form in (written, f"{{kind: {written}}}"):
        found = loaded(tmp_path, TEXT + f"  schedule: {form}\n")
        assert found.spec.parallel.schedule.kind == kind


def test_nodes_are_hosts(tmp_path):
    nodes = loaded(tmp_path, TEXT.replace("hosts: 8", "nodes: 8"))
    assert nodes.spec.cluster == loaded(tmp_path, TEXT).spec.cluster


def test_a_device_in_place_of_a_host_is_told_its_hosts(tmp_path):
    text = TEXT.replace("host: {use: cpu-server, devices: 2}", "use: gb10")
    with pytest.raises(ScenarioError) as caught:
        loaded(tmp_path, text)
    assert "unknown host 'gb10'; gb10 is a device; hosts that have it: dgx-spark" in str(caught.value)
