from __future__ import annotations

import pytest

from simcluster.cluster import (
    DeviceSpec,
    device_names,
    host_names,
    load_cluster,
    load_device,
    load_host,
)
from simcluster.document import changed, validate_data
from simcluster.errors import ScenarioError


def test_the_catalog_lists_its_files():
    assert {"h100-sxm", "a100-sxm-80", "ascend-910b-313t", "xeon-8480"} <= set(device_names())
    assert {"dgx-h100", "dgx-a100", "atlas-800t-a2", "cpu-server"} <= set(host_names())


@pytest.mark.parametrize(
    ("load", "name", "message"),
    [
        (load_device, "h100", "unknown device 'h100'\n.*did you mean 'h100-sxm'?"),
        (load_host, "dgx-h10", "unknown host 'dgx-h10'\n.*did you mean 'dgx-h100'?"),
        (load_cluster, "zzz", "unknown host 'zzz'\n.*known: a100-pcie-8, arc-pro-b60-8"),
    ],
)
def test_an_unknown_name_proposes_the_nearest(load, name, message):
    with pytest.raises(ScenarioError, match=message.replace("?", r"\?")):
        load(name)


def test_an_entry_can_start_from_another(monkeypatch, tmp_path):
    file = tmp_path / "h100-96.yaml"
    file.write_text(
        "{use: h100-sxm, title: A larger one, memory: {value: 96 GB, source: x, provenance: vendor}}"
    )
    entries = {**DeviceSpec.entries(), "h100-96": file}
    monkeypatch.setattr(DeviceSpec, "entries", classmethod(lambda cls: entries))
    device = DeviceSpec.model_validate("h100-96").build()
    assert device.memory == 96 * 10**9
    assert device.name == "h100-96"
    assert device.launch == load_device("h100-sxm").launch


def entries_with(monkeypatch, tmp_path, **texts: str) -> None:
    entries = dict(DeviceSpec.entries())
    for name, text in texts.items():
        entries[name] = tmp_path / f"{name}.yaml"
        entries[name].write_text(text)
    monkeypatch.setattr(DeviceSpec, "entries", classmethod(lambda cls: entries))


def test_what_is_borrowed_is_assumed_and_what_is_changed_is_not(monkeypatch, tmp_path):
    entries_with(
        monkeypatch,
        tmp_path,
        mine="{use: h100-sxm, title: Mine, borrowed: no table, launch: "
        "{value: 2 us, source: x, provenance: measured}}",
        ours="{use: mine, title: Ours}",
    )
    base = DeviceSpec.sourced("h100-sxm")
    for name in ("mine", "ours"):
        spec = DeviceSpec.sourced(name)
        assert spec.gemm.sustained.provenance == "assumed"
        assert spec.gemm.sustained.source == f"no table (as h100-sxm: {base.gemm.sustained.source})"
        assert spec.attention.forward[1].share.provenance == "assumed"
        assert spec.launch.provenance == "measured"
    assert base.gemm.sustained.provenance == "measured"
    assert DeviceSpec.sourced("ours").borrowed is None


def test_a_key_written_as_null_is_taken_away(monkeypatch, tmp_path):
    entries_with(monkeypatch, tmp_path, less="{use: h100-sxm, title: Less, links: null, peak: {fp8: null}}")
    spec = DeviceSpec.load("less")
    assert spec.links is None
    assert spec.peak.keys() == DeviceSpec.load("h100-sxm").peak.keys() - {"fp8"}
    entries_with(monkeypatch, tmp_path, lame="{use: h100-sxm, title: Lame, memory: null}")
    with pytest.raises(ScenarioError, match="'memory' is missing"):
        DeviceSpec.load("lame")


def test_nothing_is_borrowed_from_nowhere():
    written = DeviceSpec.load("h100-sxm").model_dump(mode="json", exclude={"use"}, exclude_none=True)
    with pytest.raises(ScenarioError, match="nothing is borrowed without 'use'"):
        validate_data({**written, "borrowed": "no table"}, DeviceSpec)


def test_changes_replace_figures_whole_and_sections_key_by_key():
    entry = {"a": {"value": 1, "source": "x"}, "b": {"c": 1, "d": [1, 2]}, "device": "one"}
    changes = {"a": {"value": 2}, "b": {"d": [3]}, "device": {"memory": 4}}
    assert changed(entry, changes) == {
        "a": {"value": 2},
        "b": {"c": 1, "d": [3]},
        "device": {"use": "one", "memory": 4},
    }
    assert DeviceSpec.document("h100-sxm").data["title"].startswith("NVIDIA H100")
