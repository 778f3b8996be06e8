from __future__ import annotations

import pytest

from simcluster.cluster import DeviceSpec, device_names, host_names, load_cluster, load_device, load_host
from simcluster.document import changed
from simcluster.errors import ScenarioError


def test_the_catalog_lists_its_files():
    assert {"h100-sxm", "a100-sxm-80", "ascend-910b-313t", "xeon-8480"} <= set(device_names())
    assert {"dgx-h100", "dgx-a100", "atlas-800t-a2", "cpu-server"} <= set(host_names())


@pytest.mark.parametrize(
    ("load", "name", "message"),
    [
        (load_device, "h100", "unknown device 'h100'\n.*did you mean 'h100-sxm'?"),
        (load_host, "dgx-h200", "unknown host 'dgx-h200'\n.*did you mean 'dgx-h100'?"),
        (load_cluster, "zzz", "unknown host 'zzz'\n.*known: atlas-800t-a2, cpu-server"),
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


def test_changes_replace_figures_whole_and_sections_key_by_key():
    entry = {"a": {"value": 1, "source": "x"}, "b": {"c": 1, "d": [1, 2]}, "device": "one"}
    changes = {"a": {"value": 2}, "b": {"d": [3]}, "device": {"memory": 4}}
    assert changed(entry, changes) == {
        "a": {"value": 2},
        "b": {"c": 1, "d": [3]},
        "device": {"use": "one", "memory": 4},
    }
    assert DeviceSpec.document("h100-sxm").data["title"].startswith("NVIDIA H100")
