"""lint: what it looks at, what it leaves to a simulation, and what it cannot look at."""

from __future__ import annotations

import builtins
import shlex
from pathlib import Path

import pytest

from simcluster.cli.commands.lint import command as lint
from simcluster.cli.commands.run import command as run
from simcluster.tuning.trial_run import TrialRun
from tests.support.scenario_texts import SMALL, but

ROOT = Path(__file__).parents[3]
SHIPPED = sorted(str(path) for path in (ROOT / "scenarios").glob("*.yaml"))
SEARCHED = {
    "recompute": "recompute: {layers: auto}",
    "offload": "offload: auto",
    "buckets": "fusion: {all_reduce: {mode: search}}",
}


@pytest.mark.parametrize("name", SEARCHED)
def test_lint_simulates_nothing(simcluster, here, monkeypatch, name):
    def never(*args):
        raise AssertionError("lint simulates")

    monkeypatch.setattr(TrialRun, "of", never)
    (here / "auto.yaml").write_text(but("tensor: 2}", f"tensor: 2}}\n  {SEARCHED[name]}"))
    code, out, err = simcluster("lint", "auto.yaml")
    assert (code, err) == (0, "")
    assert "by simulation" in " ".join(out.split())


@pytest.fixture
def without_onnx(monkeypatch):
    """A plain install."""
    original = builtins.__import__

    def missing(name, *rest, **more):
        if name.partition(".")[0] == "onnx":
            raise ImportError(name)
        return original(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", missing)


def test_what_needs_an_extra_says_so_and_is_skipped(simcluster, small, without_onnx):
    shipped = str(ROOT / "scenarios" / "onnx-language-model-8-h100.yaml")
    code, out, err = simcluster("lint", shipped, small)
    assert code == 0
    assert out.startswith("small.yaml: ok\n")
    assert err.startswith(f"{shipped}: skipped\n")
    assert (
        "needs the extra onnx; pip install 'simcluster[onnx]', or pip install '.[onnx]' in a checkout" in err
    )
    assert simcluster("run", shipped).code == 2


def test_a_skipped_scenario_does_not_hide_a_wrong_one(simcluster, here, without_onnx):
    shipped = str(ROOT / "scenarios" / "onnx-language-model-8-h100.yaml")
    (here / "wrong.yaml").write_text(SMALL + "x: 1\n")
    assert simcluster("lint", shipped, "wrong.yaml").code == 2
    code, _, err = simcluster("lint", shipped, "--set", "expect={fast: {max: 1}}")
    assert code == 2
    assert "skipped" not in err


@pytest.mark.thorough
def test_several_processes_say_the_same_in_the_same_order(simcluster, small, here):
    (here / "wrong.yaml").write_text(but("data: 2", "data: 4"))
    (here / "other.yaml").write_text(but("name: small", "name: another"))
    names = ("other.yaml", "wrong.yaml", small, "missing.yaml", small)
    alone = simcluster("lint", *names)
    assert simcluster("lint", *names, "--jobs", "2") == alone
    assert alone.code == 2


@pytest.mark.exhaustive
def test_every_shipped_scenario_passes(simcluster):
    code, out, err = simcluster("lint", *SHIPPED, "--jobs", "2")
    assert (code, err) == (0, "")
    assert [line.partition(": ok")[0] for line in out.splitlines() if line.endswith(": ok")] == SHIPPED


PRINTED = [line for module in (run, lint) for line in module.EXAMPLES if "--set" in line]


@pytest.mark.parametrize("line", PRINTED)
def test_examples_of_settings_work_as_they_are_printed(simcluster, here, line):
    """``plan.yaml`` stands for a plan of one's own: here the README's."""
    (here / "scenarios").symlink_to(ROOT / "scenarios")
    (here / "plan.yaml").symlink_to(ROOT / "scenarios" / "quickstart.yaml")
    _, _, *arguments = shlex.split(line)
    code, out, err = simcluster("lint", *arguments)
    assert (code, err) == (0, "")
    assert out


def test_there_are_such_examples():
    assert len(PRINTED) >= 2


def test_changes_by_the_framework_profile_are_counted(simcluster, small):
    changed = ("lint", "small.yaml", "--set", "framework=megatron-core")
    code, out, _ = simcluster(*changed)
    assert code == 0
    assert "changes; -v lists them" in " ".join(out.split())
    code, out, _ = simcluster(*changed, "--verbose")
    assert code == 0
    assert "gradients reduced after the backward" in " ".join(out.split())
