"""Every command says in a line why it cannot read a file that is named, whatever stands there."""

import os

import pytest

READING = {
    "run": ("run", "FILE"),
    "lint": ("lint", "FILE"),
    "verify": ("verify", "FILE"),
    "layouts": ("layouts", "FILE"),
    "explain": ("explain", "FILE"),
    "compare": ("compare", "FILE", "FILE"),
    "check": ("check", "FILE", "--baseline", "base.json", "--update"),
    "baseline": ("check", "small.yaml", "--baseline", "FILE"),
    "accuracy": ("accuracy", "FILE"),
    "topology": ("topology", "FILE"),
    "schedule": ("schedule", "FILE"),
    "parts": ("collective", "all_to_all_v", "--cluster", "dgx-h100", "--parts", "FILE"),
    "import": ("import", "megatron", "FILE", "--cluster", "dgx-h100"),
    "hf": ("lint", "small.yaml", "--set", "model={hf: FILE}"),
    "onnx": ("lint", "small.yaml", "--set", "model={onnx: FILE}"),
    "tenant": (
        "lint",
        "small.yaml",
        "--set",
        "tenants=[{scenario: FILE, hosts: [3]}]",
        "--set",
        "cluster.own_hosts=[0, 1, 2]",
    ),
}


@pytest.fixture
def unusable(small, here):
    """What stands in place of files, and the words about it."""
    (here / "loop").symlink_to("loop")
    (here / "loop.simrun").symlink_to("loop.simrun")
    (here / "huge").touch()
    os.truncate(here / "huge", 2**40)
    os.mkfifo(here / "pipe")
    return {
        "./loop": "too many levels of symbolic links",
        "./huge": "the file has 1.00 TiB",
        "./pipe": "this is a pipe, not a file",
        "/dev/zero": "this is a device, not a file",
        "./none.csv": "there is no such file",
        ".": "this is a folder",
    }


@pytest.mark.parametrize("command", READING)
def test_a_file_that_cannot_be_read(simcluster, unusable, command):
    for path, message in unusable.items():
        if path == "." and command in ("check", "topology", "schedule", "parts"):
            continue  # a folder of scenarios, or no file
        code, out, err = simcluster(*(word.replace("FILE", path) for word in READING[command]))
        assert code in (1, 2), (command, path)
        told = " ".join((out + err).split())
        if command == "baseline" and path == "./none.csv":
            message = "there is no such baseline"
        assert message in told, (command, path, told)


def test_a_saved_run_that_cannot_be_read(simcluster, unusable, here):
    code, _, err = simcluster("compare", "small.yaml", "loop.simrun")
    assert code == 2 and "loop.simrun is not a saved run: the file cannot be read: too many levels" in err


@pytest.mark.parametrize("option", ["--out", "--json", "--trace"])
def test_results_do_not_replace_a_link_that_leads_to_itself(simcluster, unusable, option):
    code, out, err = simcluster("run", "small.yaml", option, "loop")
    assert (code, out) == (2, "")
    assert f"{option} loop: this is a link that leads back to itself" in err
