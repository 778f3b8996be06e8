"""The shell of the guide on CI: what its blocks say and what its workflows run, on a small scenario."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

import simcluster
from tests.support.scenario_texts import SMALL

PAGE = (Path(simcluster.__file__).parent / "guide" / "ci.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
SHELL = [line for kind, text in BLOCKS if kind == "bash" for line in text.splitlines()]
WORKFLOWS = [
    YAML(typ="safe", pure=True).load(text) for kind, text in BLOCKS if kind == "yaml" and "expect" not in text
]
GITHUB, GITLAB = WORKFLOWS


@pytest.fixture
def checkout(tmp_path):
    """Runs a line of shell in a branch of a clone, where a scenario is as it is on the main branch."""
    origin, clone = tmp_path / "origin", tmp_path / "clone"
    (origin / "scenarios").mkdir(parents=True)
    (origin / "scenarios" / "quickstart.yaml").write_text(SMALL)
    (origin / "pytest.ini").write_text("[pytest]\n")
    who = "git -c user.name=a -c user.email=a@example.org"
    bin_folder = str(Path(sys.executable).parent)
    environment = {
        **os.environ,
        "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
        "GITHUB_BASE_REF": "main",
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_ADDOPTS": "-p simcluster.pytest_plugin",
    }

    def call(line, folder=clone):
        return subprocess.run(
            ["bash", "-ec", line], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )

    call(f"git init -q -b main && git add . && {who} commit -qm first", origin)
    call(f"git clone -q {origin} {clone}", tmp_path)
    call("git checkout -q -b change")
    environment["CI_MERGE_REQUEST_DIFF_BASE_SHA"] = call("git rev-parse main").stdout.strip()
    call.folder = clone
    call.summary = tmp_path / "summary.md"
    return call


def commands(steps):
    """The lines of shell of a workflow, but for the installation."""
    lines = [step["run"] if isinstance(step, dict) else step for step in steps if "uses" not in step]
    return [line for line in lines if "pip install" not in line]


@pytest.mark.thorough
def test_the_workflow_of_github(checkout):
    (line,) = commands(GITHUB["jobs"]["check"]["steps"])
    passed = checkout(line)
    assert passed.returncode == 0, passed.stderr
    assert checkout.summary.read_text().startswith("### simcluster check passed")
    slower = SMALL.replace("seq_len: 16", "seq_len: 64")
    (checkout.folder / "scenarios" / "quickstart.yaml").write_text(slower)
    failed = checkout(line)
    assert failed.returncode == 1, failed.stderr
    assert failed.stdout.startswith("::error file=scenarios/quickstart.yaml,title=")
    assert "training.seq\\_len: 16 -> 64" in checkout.summary.read_text()


@pytest.mark.thorough
def test_the_job_of_gitlab(checkout):
    job = GITLAB["simulated-performance"]
    (line,) = commands(job["script"])
    ended = checkout(line)
    assert ended.returncode == 0, ended.stderr
    assert (checkout.folder / job["artifacts"]["reports"]["junit"]).read_text().startswith("<?xml")


@pytest.mark.thorough
def test_the_lines_of_shell(checkout):
    assert len(SHELL) == 7
    for line in SHELL:
        ended = checkout(line)
        assert ended.returncode == 0, (line, ended.stdout, ended.stderr)


def test_the_sections_of_scenarios_are_accepted(tmp_path):
    written = [text for kind, text in BLOCKS if kind == "yaml" and "expect" in text]
    for text in written:
        (tmp_path / "a.yaml").write_text(SMALL + text)
        simcluster.load(tmp_path / "a.yaml")
    assert len(written) == 2
