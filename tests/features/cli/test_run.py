from __future__ import annotations

import gzip
import json
import re
import time

import pytest

from simcluster.cli.commands.run import session
from simcluster.document import Document
from simcluster.errors import SimulationError
from simcluster.result import Result
from simcluster.trace import Run
from tests.support.scenario_texts import CRAMPED, SMALL, but


def test_the_summary_is_printed(simcluster, small):
    code, out, err = simcluster("run", small)
    assert (code, err) == (0, "")
    assert "Step time" in out
    assert "\033" not in out


def test_quiet_says_nothing(simcluster, small, here):
    assert simcluster("run", small, "--quiet", "--json", "result.json") == (0, "", "")
    assert json.loads((here / "result.json").read_text())["fits"]


def test_json_takes_the_place_of_the_summary(simcluster, small):
    code, out, err = simcluster("run", small, "--json", "-")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["num_ranks"] == 8
    assert isinstance(found["step_time_s"], float)


def test_settings_change_the_scenario(simcluster, small):
    two = ("--set", "run.steps=2", "--set", "name=other")
    found = json.loads(simcluster("run", small, "--json", "-", *two).out)
    assert found["name"] == "other"


def test_unfolded_runs_give_the_same_time(simcluster, small):
    folded = json.loads(simcluster("run", small, "--json", "-").out)
    unfolded = json.loads(simcluster("run", small, "--json", "-", "--unfold").out)
    assert folded["num_classes"] == 2
    assert unfolded["num_classes"] == 8
    assert folded["step_time_s"] == unfolded["step_time_s"]


def test_a_folder_holds_everything(simcluster, small, here):
    code, _, err = simcluster(
        "run", small, "--out", "deep/out", "--trace", "trace.json", "--json", "result.json"
    )
    assert code == 0
    assert err.splitlines() == ["written: deep/out", "written: trace.json", "written: result.json"]
    folder = here / "deep" / "out"
    names = ["report.html", "result.json", "run.simrun", "scenario.yaml", "summary.txt", "trace.json.gz"]
    assert sorted(path.name for path in folder.iterdir()) == names
    assert (folder / "scenario.yaml").read_text() == SMALL
    result = json.loads((here / "result.json").read_text())
    assert result.pop("wall_s") > 0
    assert json.loads((folder / "result.json").read_text()) == result
    assert "Step time" in (folder / "summary.txt").read_text()
    traced = json.loads(gzip.decompress((folder / "trace.json.gz").read_bytes()))
    assert traced == json.loads((here / "trace.json").read_text())
    assert Run.load(folder / "run.simrun").documents["plan"]["name"] == "small"


INFERENCE = but(
    "training: {global_batch: 8, micro_batch: 1, seq_len: 16, precision: fp32}",
    "inference: {batch: 8, prompt: 16, tokens: 4, precision: fp32}",
)


@pytest.mark.parametrize("text", [SMALL, INFERENCE, CRAMPED], ids=["training", "inference", "cramped"])
def test_the_files_of_a_folder_are_the_same_bytes_every_time(simcluster, here, monkeypatch, text):
    (here / "small.yaml").write_text(text)
    first = simcluster("run", "small.yaml", "--out", "first")
    monkeypatch.setattr(time, "localtime", lambda *_: time.struct_time((2040, 2, 3, 4, 5, 6, 4, 34, 0)))
    second = simcluster("run", "small.yaml", "--out", "second")
    assert first.code == second.code
    for path in (here / "first").iterdir():
        assert path.read_bytes() == (here / "second" / path.name).read_bytes(), path.name
    assert len(list((here / "first").iterdir())) == 6
    # How long it took is on the screen, and nowhere in the files.
    line = next(line for line in first.out.splitlines() if line.startswith("Simulated"))
    kept = (here / "first" / "summary.txt").read_text().splitlines()
    assert line.split(" events")[1].startswith(" in ")
    assert line.split(" events")[0] + " events." in kept
    assert Result.load(here / "first" / "run.simrun").wall_s is None


def test_traces_show_the_ranks_that_are_named(simcluster, small, here):
    assert simcluster("run", small, "--out", "out", "--trace", "t.json", "--ranks", "5,0-1").code == 0
    document = json.loads((here / "t.json").read_text())
    names = [each["args"]["name"] for each in document["traceEvents"] if each["name"] == "process_name"]
    assert [name.split(" (")[0] for name in names] == ["rank 0", "rank 1", "rank 5"]
    assert names[0] == "rank 0 (class 0, stage 0)"
    assert json.loads(gzip.decompress((here / "out" / "trace.json.gz").read_bytes())) == document


def test_several_scenarios_have_folders_of_their_own(simcluster, small, here):
    (here / "sub").mkdir()
    (here / "sub" / "small.yaml").write_text(but("name: small", "name: second"))
    code, out, _ = simcluster("run", small, "sub/small.yaml", "--out", "out", "--json", "results.json")
    assert code == 0
    assert sorted(path.name for path in (here / "out").iterdir()) == ["small", "small-2"]
    assert [each["name"] for each in json.loads((here / "results.json").read_text())] == ["small", "second"]
    assert out.count("Step time") == 2


def test_the_scenario_is_written_with_its_changes(simcluster, small, here):
    settings = ("--set", "parallel.optimizer_sharding.zero=1", "--set", "run={steps: 2}")
    simcluster("run", small, "--out", "out", *settings)
    text = (here / "out" / "scenario.yaml").read_text()
    assert "# A comment to keep." in text
    assert "# with --set run={steps: 2}" in text
    again = json.loads(simcluster("run", "out/scenario.yaml", "--json", "-").out)
    wanted = json.loads(simcluster("run", small, "--json", "-", *settings).out)
    assert again | {"wall_s": 0} == wanted | {"wall_s": 0}


def test_a_config_file_is_still_found_from_the_written_scenario(simcluster, here):
    sizes = {"num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 8, "vocab_size": 256}
    (here / "config.json").write_text(json.dumps({"model_type": "llama", "intermediate_size": 128, **sizes}))
    model = "{layers: 4, hidden: 64, heads: 8, kv_heads: 4, ffn: 128, vocab: 256}"
    (here / "small.yaml").write_text(but(model, "{hf: config.json}"))
    assert simcluster("run", "small.yaml", "--out", "out").code == 0
    assert Document.read("out/scenario.yaml").data["model"]["hf"] == str(here / "config.json")
    assert simcluster("lint", "out/scenario.yaml").code == 0


def test_an_onnx_file_names_the_model_and_is_still_found_from_the_written_scenario(simcluster, here):
    pytest.importorskip("onnx")
    from tests.support.onnx_networks import mlp

    mlp(here / "network.onnx")
    model = "{layers: 4, hidden: 64, heads: 8, kv_heads: 4, ffn: 128, vocab: 256}"
    text = but(model, "{onnx: network.onnx}").replace("seq_len: 16", "seq_len: 1")
    mesh = "pipeline: 2, data: 2, tensor: 2"
    (here / "small.yaml").write_text(but(mesh, "data: 8", text))
    ran = simcluster("run", "small.yaml", "--out", "out")
    assert ran.code == 0
    assert "model    network, 1.86 k parameters" in ran.out
    assert Document.read("out/scenario.yaml").data["model"]["onnx"] == str(here / "network.onnx")
    assert simcluster("lint", "out/scenario.yaml").code == 0


def test_what_does_not_fit_fails_and_the_json_is_whole(simcluster, here):
    (here / "cramped.yaml").write_text(CRAMPED)
    code, out, _ = simcluster("run", "cramped.yaml", "--out", "out")
    assert code == 1
    assert "DOES NOT FIT" in out
    code, out, err = simcluster("run", "cramped.yaml", "--json", "-")
    assert code == 1
    assert "small: does not fit: stage" in err
    found = json.loads(out)
    assert found["fits"] is False
    assert found["peak_memory_bytes"][0]["alive"]
    assert found | {"wall_s": 0} == json.loads((here / "out" / "result.json").read_text()) | {"wall_s": 0}


def test_the_hint_to_explain_keeps_the_changes_of_the_call(simcluster, small, here):
    room = "run.headroom=64 TiB"
    hint = f"what would make it fit: simcluster explain {small} --set '{room}'"
    assert hint in simcluster("run", small, "--set", room).err


def test_what_is_tight_is_said_first_and_is_no_failure(simcluster, small, here):
    room = ("--set", "run.headroom=64 TiB")
    code, out, err = simcluster("run", small, *room)
    assert code == 0
    assert out.startswith("TIGHT: 8 of 8 ranks")
    assert "headroom 64.0 TiB" in " ".join(out.split())
    assert "the rule: it fits if" in out
    assert "simcluster explain" in err
    code, out, err = simcluster("run", small, "--json", "-", *room)
    found = json.loads(out)
    assert (code, found["verdict"], found["fits"]) == (0, "tight", False)
    assert "small: TIGHT: 8 of 8 ranks" in err
    code, out, err = simcluster("compare", small, small, *room)
    assert (code, out.count("TIGHT")) == (0, 2)


def test_one_misfit_among_several_fails(simcluster, small, here):
    (here / "cramped.yaml").write_text(CRAMPED)
    code, out, _ = simcluster("run", "cramped.yaml", small)
    assert code == 1
    assert out.count("Step time") == 2


def test_broken_bounds_fail(simcluster, small, here):
    (here / "bound.yaml").write_text(SMALL + "expect: {step_time: {max: 1e-9}, mfu: {min: 0}}\n")
    code, out, err = simcluster("run", "bound.yaml")
    assert code == 1
    assert "Step time" in out
    assert err.startswith("small: expect: step_time is ")
    assert len(err.splitlines()) == 1


def test_nothing_runs_if_one_of_several_is_wrong(simcluster, small, here, monkeypatch):
    monkeypatch.setattr(session, "simulate", None)
    (here / "broken.yaml").write_text("simcluster: [\n")
    (here / "plan.yaml").write_text(but("data: 2", "data: 4"))
    code, out, err = simcluster("run", small, "broken.yaml", "plan.yaml", "--out", "out")
    assert (code, out) == (2, "")
    assert "broken.yaml:2:1" in err
    assert "plan.yaml:8:3" in err
    assert not (here / "out").exists()


def test_a_deadlock_is_a_failure_not_wrong_input(simcluster, small, monkeypatch):
    def stuck(*args, **kwargs):
        raise SimulationError("the program is deadlocked", "rank 0 waits")

    monkeypatch.setattr(session, "simulate", stuck)
    code, out, err = simcluster("run", small)
    assert (code, out) == (1, "")
    assert err == "Error: the program is deadlocked\nError: rank 0 waits\n"


def test_too_little_memory_of_our_own(simcluster, small, monkeypatch):
    def hungry(*args, **kwargs):
        raise MemoryError

    monkeypatch.setattr(session, "simulate", hungry)
    assert simcluster("run", small) == (
        1,
        "",
        "Error: this machine has not enough memory for that simulation\n",
    )


def test_colour_only_where_it_is_wanted(simcluster, small, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\033[" in simcluster("run", small).out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\033[" not in simcluster("run", small).out


@pytest.mark.parametrize("columns", ["60", "80", "120"])
def test_the_summary_keeps_to_the_terminal(simcluster, small, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    assert all(len(line) <= int(columns) for line in simcluster("run", small).out.splitlines())


def test_the_head_is_short_and_tells_all_on_request(simcluster, small):
    _, short, _ = simcluster("run", small, "--set", "framework=megatron-core")
    _, long, _ = simcluster("run", small, "--set", "framework=megatron-core", "-v")
    assert "-v lists them" in short
    assert "fuses only" not in short
    assert "fuses only" in long
    assert len(short.splitlines()) < len(long.splitlines())


@pytest.mark.thorough
def test_scenarios_are_shared_among_processes(simcluster, here):
    for number in range(4):
        text = but("name: small", f"name: scenario {number}").replace(
            "seq_len: 16", f"seq_len: {16 + 8 * number}"
        )
        (here / f"{number}.yaml").write_text(text)
    (here / "3.yaml").write_text(CRAMPED)
    names = sorted(path.name for path in here.glob("*.yaml"))
    one = simcluster("run", *names, "--jobs", "1", "--out", "one", "--json", "one.json")
    two = simcluster("run", *names, "--jobs", "2", "--out", "two", "--json", "two.json")
    assert one.code == two.code == 1
    wall = re.compile(r"events in [\d.]+ m?s")
    assert wall.sub("", one.out) == wall.sub("", two.out) and one.err == two.err.replace("two", "one")
    strip = re.compile(rb'"wall_s": [^,]*,?')
    assert strip.sub(b"", (here / "one.json").read_bytes()) == strip.sub(
        b"", (here / "two.json").read_bytes()
    )
    for path in (here / "one").rglob("result.json"):
        assert path.read_bytes() == (here / "two" / path.relative_to(here / "one")).read_bytes()
