"""Wrong scenarios: each gets one clear message with its place, exit code 2, and leaves nothing behind."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from tests.support.covering import quick
from tests.support.scenario_texts import SMALL, but

MODEL = "{layers: 4, hidden: 64, heads: 8, kv_heads: 4, ffn: 128, vocab: 256}"


def strategy(match, split):
    return SMALL + f"  strategies: [{{match: '{match}', split: {split}}}]\n"


def below(text):
    return SMALL + text + "\n"


# name -> (text of the file, place in it, what is said)
WRONG = {
    "empty": ("", "", "the file is empty"),
    "comment": ("# nothing\n", "", "the file is empty"),
    "list": ("- a\n", "1:1", "the file holds a list"),
    "text": ("hello\n", "1:1", "the file holds text"),
    "latin 1": (b"name: caf\xe9\n", "1:10", "not UTF-8"),
    "binary": (bytes(range(256)), "", "not UTF-8"),
    "tab": (but("  mesh", "\tmesh"), "8:1", "a tab where YAML needs spaces"),
    "duplicate key": (
        below("name: again"),
        "9:1",
        "duplicate key 'name'; it is already at wrong.yaml:3:1",
    ),
    "unknown key": (below("framwork: ideal"), "9:1", "unknown key 'framwork'; did you mean 'framework'?"),
    "unknown inner key": (but("hosts: 4", "hosts: 4, host_count: 3"), "4:38", "unknown key 'host_count'"),
    "offload without what": (
        below("  offload: host"),
        "9:12",
        "'host' is not accepted alone; write auto, or what is offloaded",
    ),
    "not closed": (below("x: [1, 2"), "9:4", "never closed"),
    "tag": (below("x: !!python/object:os.system ls"), "9:4", "is not accepted"),
    "two documents": (SMALL + "---\n" + SMALL, "9:1", "a second YAML document"),
    "deep": ("a: " + "[" * 200 + "]" * 200 + "\n", "1:68", "nested more than 64 levels"),
    "version": (but("simcluster: 1", "simcluster: 2"), "2:13", "2 is not accepted; write 1"),
    "1e-6": (but("hosts: 4", "hosts: 1e-6"), "4:35", "1e-06 is not an integer"),
    "on": (but("model: {", "model: {bias: on, "), "5:15", "'on' is text; write true or false"),
    "0o10 is eight": (but("hosts: 4", "hosts: 0o10"), "8:3", "8 hosts x 2 devices = 16"),
    "negative": (but("global_batch: 8", "global_batch: -8"), "6:26", "-8 is too small"),
    "zero": (but("micro_batch: 1", "micro_batch: 0"), "6:42", "0 is too small"),
    "4.0": (but("hosts: 4", "hosts: 4.0"), "4:35", "write 4"),
    "true": (but("hosts: 4", "hosts: true"), "4:35", "write an integer"),
    "nan": (below("expect: {mfu: {max: .nan}}"), "9:21", ".nan is not a finite number"),
    "infinite": (below("expect: {mfu: {max: .inf}}"), "9:21", ".inf is not a finite number"),
    "no unit": (but("use: cpu-server", "host: {use: cpu-server, memory: 5}"), "4:43", "5 has no unit"),
    "bad unit": (
        but("use: cpu-server", "host: {use: cpu-server, memory: 5 GX}"),
        "4:43",
        "unknown unit 'GX'",
    ),
    "carriage returns": (but("hosts: 4", "hosts: -4").replace("\n", "\r\n"), "4:35", "-4 is too small"),
    "axes": (but("data: 2", "data: 4"), "8:3", "pipeline 2 x data 4 x tensor 2 = 16, but the cluster has 8"),
    "no axes": (but("{pipeline: 2, data: 2, tensor: 2}", "{}"), "8:3", "but the cluster has 8 devices"),
    "batch": (but("global_batch: 8", "global_batch: 7"), "6:26", "use a multiple of 2"),
    "heads": (
        but("tensor: 2", "tensor: 3", but("hosts: 4", "hosts: 6")),
        "8:40",
        "layers.0.attention.qkv and 3 more operators: heads 4 does not divide over tensor 3",
    ),
    "key-value heads": (but("kv_heads: 4", "kv_heads: 3"), "5:52", "8 heads are not a multiple of 3"),
    "stages": (
        but("pipeline: 2", "pipeline: 8", but("hosts: 4", "hosts: 16")),
        "8:20",
        "8 pipeline stages for 4 layers",
    ),
    "listed stages": (below("  schedule: {stages: [1, 2, 1]}"), "9:14", "3 stages are listed"),
    "sum of stages": (below("  schedule: {stages: [1, 2]}"), "9:14", "but the model has 4"),
    "unused axis": (but("tensor: 2", "replica: 2"), "8:41", "no strategy uses axis 'replica'"),
    "axis name": (but("data: 2", "da-ta: 2"), "8:30", "'da-ta' is not an axis name"),
    "role": (below("  roles: {batch: dta}"), "9:18", "did you mean 'data'?"),
    "recipe": (below("  recipe: megatrn"), "9:11", "did you mean 'megatron'?"),
    "schedule": (below("  schedule: {kind: 1f1c}"), "9:20", "did you mean '1f1b'?"),
    "host": (but("cpu-server", "cpu-sever"), "4:16", "did you mean 'cpu-server'?"),
    "device": (
        but("use: cpu-server", "host: {use: cpu-server, device: h100}"),
        "4:43",
        "did you mean 'h100-sxm'?",
    ),
    "model": (but(MODEL, "{use: lama3-8b}"), "5:14", "did you mean 'llama3-8b'?"),
    "framework": (below("framework: ideel"), "9:12", "did you mean 'ideal'?"),
    "optimizer": (but("fp32}", "fp32, optimizer: adm}"), "6:86", "did you mean 'adam'?"),
    "precision": (but("fp32", "fp9"), "6:69", "'fp32', 'tf32', 'fp16', 'bf16', 'fp8', 'mxfp8' or 'nvfp4'"),
    "no such rate": (but("fp32", "fp8"), "6:69", "it has: fp64, fp32, bf16"),
    "recovery": (below("job: {steps: 3, recovery: restrat}"), "9:27", "did you mean 'restart'?"),
    "no such operator": (strategy("nothing", "{ffn: tensor}"), "9:24", "matches no operator"),
    "no such dim": (strategy("layers.*.mlp.up", "{fn: tensor}"), "9:43", "did you mean 'ffn'?"),
    "no such axis": (strategy("layers.*.mlp.up", "{ffn: tensr}"), "9:56", "did you mean 'tensor'?"),
    "unsplittable": (strategy("layers.*.mlp.norm", "{hidden: tensor}"), "9:16", "cannot be split"),
    "no alternative": (strategy("layers.*.mlp.up", "[]"), "9:43", "0 items"),
    "no config.json": (but(MODEL, "{hf: config.json}"), "5:13", "there is no such file"),
    "no network": (but(MODEL, "{onnx: network.onnx}"), "5:15", "network.onnx: "),
    "bound": (below("expect: {step_tme: {max: 1}}"), "9:10", "did you mean 'step_time'?"),
    "empty bound": (below("expect: {mfu: {}}"), "9:10", "give min, max or both"),
    "crossed bounds": (below("expect: {mfu: {min: 1, max: 0}}"), "9:10", "min 1 is above max 0"),
    # Huge: refused at once instead of filling the memory.
    "65 bits": (but("hosts: 4", "hosts: 99999999999999999999"), "4:35", "more than 64 bits"),
    "huge cluster": (
        but("data: 2", "data: 500000000", but("hosts: 4", "hosts: 1000000000")),
        "8:3",
        "2,000,000,000 ranks; at most 1,048,576 are simulated",
    ),
    "huge hosts": (but("hosts: 4", "hosts: 1000000000"), "8:3", "but the cluster has 2000000000 devices"),
    "huge layers": (but("layers: 4", "layers: 10000000"), "5:17", "10,000,000 layers; at most 16,384"),
    "huge stages": (below("  schedule: {stages: [1000000000, 2]}"), "9:14", "but the model has 4"),
    "huge batch": (but("global_batch: 8", "global_batch: 1000000000000"), "6:26", "a smaller global_batch"),
    "huge steps": (below("run: {steps: 1000000000}"), "9:14", "use fewer steps"),
    "huge hidden": (but("hidden: 64", "hidden: 1000000000000"), "5:1", "is larger than 1 PiB"),
    "huge sequence": (but("seq_len: 16", "seq_len: 1000000000000"), "5:1", "is larger than 1 PiB"),
    "aliases": (
        "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
        + "".join(f"{y}: &{y} [{', '.join([f'*{x}'] * 10)}]\n" for x, y in pairwise("abcdef")),
        "",
        "more than 100,000 values",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_lint_says_what_is_wrong(simcluster, here, name):
    text, place, message = WRONG[name]
    (here / "wrong.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    code, out, err = simcluster("lint", "wrong.yaml")
    assert (code, out) == (2, "")
    assert message in err
    assert re.search(rf"^wrong\.yaml{':' if place else ''}{place}\b", err, re.MULTILINE), err
    assert "Traceback" not in err


@pytest.mark.parametrize("name", quick(WRONG, *[*WRONG][::10]))
def test_run_says_the_same_and_writes_nothing(simcluster, here, name):
    text = WRONG[name][0]
    (here / "wrong.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    found = simcluster("run", "wrong.yaml", "--out", "out", "--json", "result.json")
    assert found == simcluster("lint", "wrong.yaml")
    assert [path.name for path in here.iterdir()] == ["wrong.yaml"]


@pytest.mark.parametrize(
    "command", [("run",), ("lint",), ("verify",), ("layouts",), ("layouts", "--as-strategies")]
)
def test_every_command_refuses_the_same_way(simcluster, here, command):
    (here / "wrong.yaml").write_text(but("data: 2", "data: 4"))
    code, out, err = simcluster(*command, "wrong.yaml")
    assert (code, out) == (2, "")
    assert err.startswith("wrong.yaml:8:3: pipeline 2 x data 4 x tensor 2 = 16, but")


@pytest.mark.parametrize("command", ["run", "lint", "verify", "layouts"])
@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("none.yaml", "there is no such file"),
        ("folder", "this is a folder"),
        ("smal.yaml", "did you mean 'small.yaml'?"),
    ],
)
def test_paths_that_are_no_scenario(simcluster, small, here, command, path, message):
    (here / "folder").mkdir()
    code, out, err = simcluster(command, path)
    assert (code, out) == (2, "")
    assert err.startswith(f"{path}: ")
    assert message in err


def test_all_mistakes_of_a_file_are_shown_together(simcluster, here):
    (here / "wrong.yaml").write_text(but("hosts: 4", "hosts: -4", but("fp32", "fp9")))
    _, _, err = simcluster("lint", "wrong.yaml")
    assert err.index("wrong.yaml:4:35") < err.index("wrong.yaml:6:69")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("parallel.mesh.tensor", "--set parallel.mesh.tensor: expected KEY=VALUE"),
        ("=4", "write KEY=VALUE"),
        ("parallel..mesh=4", "write KEY=VALUE"),
        ("parallel.mesh.tensor=x", "--set parallel.mesh.tensor=x: 'x' is not accepted; write"),
        ("parallel.mesh=[", "--set parallel.mesh=["),
        ("name.first=x", "is a single value"),
        ("parallel.mesh.tensor=4", "but the cluster has 8 devices"),
        ("parallel.mesh.tensor=4", "\n    changed by --set parallel.mesh.tensor=4"),
        ("parallel.mesh.tensor=4", "--set parallel.mesh.data=1 matches, and so does data: auto"),
        ("cluster.hosts=8", "--set parallel.mesh.data=4 matches"),
        ("nothing=1", "unknown key 'nothing'"),
    ],
)
def test_wrong_settings(simcluster, small, setting, message):
    code, _, err = simcluster("lint", small, "--set", setting)
    assert code == 2
    assert message in err


@pytest.mark.parametrize(
    "arguments",
    [
        ("rum",),
        ("run",),
        ("run", "small.yaml", "--fast"),
        ("run", "small.yaml", "--set"),
        ("check", "small.yaml"),
        ("verify", "small.yaml", "--dtype", "float16"),
        ("layouts", "small.yaml", "--as-strategies", "--operator", "x"),
        ("schema", "x"),
    ],
)
def test_wrong_command_lines(simcluster, small, arguments):
    code, out, err = simcluster(*arguments)
    assert (code, out) == (2, "")
    assert any(line.startswith("Error: ") for line in err.splitlines())  # a hint may follow
