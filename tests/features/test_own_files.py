"""Files of a user's own in place of entries of the catalog."""

import json

import pytest

import simcluster
from simcluster.cli.app import command_line
from simcluster.cluster.spec import DeviceSpec, HostSpec
from simcluster.errors import ScenarioError
from simcluster.model import ModelSpec
from simcluster.plan import FrameworkSpec
from simcluster.scenario import Scenario, entry_schema
from tests.support.scenario_texts import but
from tests.support.schemas import schema_validator

MODEL = "{layers: 4, hidden: 64, heads: 8, kv_heads: 4, ffn: 128, vocab: 256}"
OWN = but("use: cpu-server,", "use: parts/host.yaml,", but(MODEL, "parts/model.yaml"))
OWN += "framework: {use: parts/framework.yaml, prefetch: 2}\n"


def entry(section, name):
    return section.entries()[name].read_text()


@pytest.fixture
def folder(tmp_path):
    """A scenario whose host, device, model and framework are files of its own."""
    (tmp_path / "parts").mkdir()
    (tmp_path / "a.yaml").write_text(OWN)
    host = entry(HostSpec, "cpu-server").replace("device: xeon-8480", "device: cpu.yaml")
    assert "cpu.yaml" in host
    (tmp_path / "parts" / "host.yaml").write_text(host)
    (tmp_path / "parts" / "cpu.yaml").write_text(entry(DeviceSpec, "xeon-8480"))
    (tmp_path / "parts" / "model.yaml").write_text(
        "layers: 4\nhidden: 64\nheads: 8\nkv_heads: 4\nffn: 128\nvocab: 256\n"
    )
    (tmp_path / "parts" / "framework.yaml").write_text(entry(FrameworkSpec, "megatron-core"))
    return tmp_path


def test_they_give_what_the_entries_give(folder, tmp_path):
    (tmp_path / "named.yaml").write_text(
        OWN.replace("parts/model.yaml", MODEL)
        .replace("parts/host.yaml", "cpu-server")
        .replace("parts/framework.yaml", "megatron-core")
    )
    own, named = (simcluster.simulate(tmp_path / f"{name}.yaml") for name in ("a", "named"))
    assert own.summary["step_time_s"] == named.summary["step_time_s"]
    for figure in ("peak_memory_bytes_max", "compute_s", "host_s", "exposed_communication_s"):
        assert own.summary[figure] == named.summary[figure]


def test_a_dict_names_them_too(folder, monkeypatch):
    monkeypatch.chdir(folder)
    data = dict(Scenario.load("a.yaml").document.data) | {"model": "parts/model.yaml"}
    assert Scenario.of(data).spec.model.hidden == 64


def test_changes_beside_the_name_and_of_the_command_line_win(folder):
    (folder / "parts" / "small.yaml").write_text("use: llama3-8b\nlayers: 4\nhidden: 512\n")
    changes = [("model", "{use: parts/small.yaml, layers: 2}"), ("model.vocab", "512")]
    model = Scenario.load(folder / "a.yaml", changes).spec.model
    assert (model.use, model.layers, model.hidden, model.vocab) == ("llama3-8b", 2, 512, 512)
    written = Scenario.load(folder / "a.yaml", [("cluster.host.device.memory", "1 GiB")])
    assert written.spec.cluster.hardware.device.memory.value == 2**30


def test_every_mistake_has_its_place_in_its_own_file(folder, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "parts" / "model.yaml").write_text("layers: 4\nhiden: 64\nheads: 8\nffn: 128\nvocab: 256\n")
    cpu = (folder / "parts" / "cpu.yaml").read_text()
    line = next(number for number, text in enumerate(cpu.splitlines(), 1) if text.startswith("memory:"))
    (folder / "parts" / "cpu.yaml").write_text(cpu.replace("\nmemory:", "\nmemory_size:"))
    (folder / "a.yaml").write_text(OWN.replace("prefetch: 2", "prefetch: two"))
    with pytest.raises(ScenarioError) as caught:
        Scenario.load("a.yaml")
    text = str(caught.value)
    assert "parts/model.yaml:2:1: unknown key 'hiden'; did you mean 'hidden'?" in text
    assert f"parts/cpu.yaml:{line}:1: unknown key 'memory_size'" in text
    assert "a.yaml:9:" in text and "prefetch" in text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "a.yaml:5:8: parts/model.yaml: there is no such file"),
        ("", "a.yaml:5:8: parts/model.yaml: the file is empty"),
        ("a: [\n", "parts/model.yaml:"),
        ("use: model.yaml\n", "parts/model.yaml:1:6: parts/model.yaml names itself"),
        ("simcluster: 1\n", "parts/model.yaml:1:13: this is a scenario, not a part of one"),
        ("use: nothing\n", "unknown model 'nothing'"),
    ],
)
def test_files_that_cannot_be_entries(folder, monkeypatch, content, message):
    monkeypatch.chdir(folder)
    (folder / "a.yaml").write_text(OWN.replace("model:", "model: parts/model.yaml #", 1))
    (folder / "parts" / "model.yaml").unlink()
    if content is not None:
        (folder / "parts" / "model.yaml").write_text(content)
    with pytest.raises(ScenarioError) as caught:
        Scenario.load("a.yaml")
    assert message in str(caught.value)


def test_what_a_run_writes_can_be_read_from_anywhere(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    assert command_line(["run", "a.yaml", "-q", "--out", "out"]) == 0
    (folder / "elsewhere").mkdir()
    (folder / "out" / "scenario.yaml").rename(folder / "elsewhere" / "b.yaml")
    (folder / "parts").rename(folder / "gone")
    again = simcluster.simulate(folder / "elsewhere" / "b.yaml")
    assert again.step_time_s == json.loads((folder / "out" / "result.json").read_text())["step_time_s"]


@pytest.mark.parametrize(
    ("kind", "section", "names"),
    [
        ("host", HostSpec, ("dgx-h100", "dgx-h200")),
        ("device", DeviceSpec, ("h100-sxm",)),
        ("model", ModelSpec, ("llama3-8b",)),
        ("framework", FrameworkSpec, ("fsdp", "nemo")),
    ],
)
def test_the_catalog_gives_files_to_change_that_follow_their_schema(capsys, kind, section, names):
    schema = schema_validator(entry_schema(kind))
    for name in names:
        assert command_line(["catalog", name, "--yaml"]) == 0
        text = capsys.readouterr().out
        head, _, content = text.partition("\n")
        assert head.startswith(f"# From the catalog: {name}.") and f"./my-{name}.yaml" in head
        assert content == entry(section, name)
        schema.validate(section.document(name).data)
    assert not schema.is_valid({"wrong": 1})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--yaml",), "name an entry"),
        (("hosts", "--yaml"), "name an entry"),
        (("dgx-h100", "--yaml", "--json"), "use it without --json"),
        (("recipes", "fsdp", "--yaml"), "a scenario names recipes of the catalog only"),
    ],
)
def test_what_the_catalog_cannot_give_as_a_file(capsys, arguments, message):
    assert command_line(["catalog", *arguments]) == 2
    assert message in capsys.readouterr().err
