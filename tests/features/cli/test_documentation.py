"""Every command and Python block of the README and the guide runs from the root of a checkout."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from simcluster.document import Document
from simcluster.registry import data_files
from simcluster.scenario import scenario_schema
from tests.support.documentation_blocks import ROOT, arguments, blocks
from tests.support.marked_tables import hold_marked_table, marked_table
from tests.support.schemas import schema_validator

NOT_RUN = {
    "pip install": "CI has installed the package before its tests run",
    "pytest": "these are the tests",
}
"""Commands that begin so are left out, and why. What needs machines that CI has not (a Dask scheduler, SLURM,
Kubernetes) stands in blocks without a language of their own (``text``).
"""

ELSEWHERE = {"ci": "tests/features/test_ci_guide.py"}
"""Pages whose shell has a test of its own, in a clone with a history."""
SLOW = {
    "simcluster accuracy tests/accuracy/memory.csv --worst 10",  # half a minute
    "simcluster advise scenarios/tiny-gpt-cpu.yaml --rounds 1",
    "simcluster checkpoint costs scenarios/megatron-1t-512-h200-from-2048.yaml",
    "simcluster search scenarios/quickstart.yaml --over mesh --top 5 -o best.yaml",
}
"""Commands of several seconds, of which other tests have more."""
SHIPPED = re.compile(r"simcluster (run|verify) scenarios/[\w.-]+\.yaml( *#.*)?")
"""Shipped scenarios as they are: the goldens simulate them all, and ``test_verify.py`` verifies them all."""
CODE = re.compile(r"#.*exit code (\d)")
"""What a comment behind a command says how it ends; 0 without one."""


def marked(block):
    """The README's blocks belong to the quick run, the guide's to the thorough one, but for slow ones."""
    shown_elsewhere = not block.output and all(map(SHIPPED.fullmatch, block.commands))
    late = block.commands and (shown_elsewhere or SLOW & set(block.commands))
    mark = pytest.mark.exhaustive if late else pytest.mark.thorough
    return pytest.param(block, marks=() if block.page.name == "README.md" else mark, id=str(block))


def alike(line):
    """A line of output without its figures, which belong to a version, and without bars."""
    return re.sub(r"[^a-zA-Z]+", " ", re.sub(r"[\d.,]+ (?=[kMGTPE]?[a-zA-Z/]+\b)|[▀-▟]", "", line)).split()


def wanted(command):
    """The parts of a command that are run."""
    parts = [part.strip() for part in command.split("&&")]
    return [part for part in parts if not part.startswith(tuple(NOT_RUN))]


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A folder that looks like the root of a checkout, in which files may be written, on one processor:
    several processes, each of which has to begin, have tests of their own (``tests/features/sweeps``).
    """
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    for name in ("scenarios", "notebooks", "tests", "simcluster"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("block", [marked(block) for block in blocks("console")])
def test_commands(simcluster, checkout, block):
    commands = [part for command in block.commands for part in wanted(command)]
    if block.needs_shell:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, "COLUMNS": "100", "PATH": path}
        text = block.text if commands == block.commands else "\n".join(commands)
        done = subprocess.run(
            ["bash", "-euo", "pipefail"],
            input=text, capture_output=True, text=True, env=environment, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        printed = done.stdout
    else:
        printed = ""
        for command in commands:
            assert command.startswith("simcluster "), command
            code, out, err = simcluster(*arguments(command, checkout))
            wanted_code = CODE.search(command)
            assert code == int(wanted_code[1] if wanted_code else 0), f"{command}\n{err}"
            printed += out
    lines = iter([alike(line) for line in printed.splitlines()])
    for line in block.output:
        assert alike(line) in lines, f"not printed, or not there: {line}"


def test_the_readme_shows_what_its_first_command_prints(simcluster, checkout, request):
    """To the letter, but for how long it took."""
    printed = simcluster("run", "scenarios/quickstart.yaml").out
    took = re.compile(r"events in .*\.$", re.MULTILINE)
    shown = marked_table(ROOT / "README.md", "quickstart")
    printed = took.sub(lambda _: took.search(shown)[0], printed)
    hold_marked_table(ROOT / "README.md", "quickstart", f"```text\n{printed}```\n", request)


@pytest.mark.parametrize("block", [marked(block) for block in blocks("python")])
def test_python(checkout, block, capsys):
    exec(compile(block.text, str(block), "exec"), {"__name__": "__main__"})


def optional(schema):
    """A schema in which nothing is required."""
    if isinstance(schema, dict):
        return {key: optional(value) for key, value in schema.items() if key != "required"}
    return [optional(item) for item in schema] if isinstance(schema, list) else schema


@cache
def parts_of_scenarios():
    """What checks parts of scenarios."""
    return schema_validator(optional(scenario_schema()))


@pytest.mark.parametrize("block", [pytest.param(block, id=str(block)) for block in blocks("yaml")])
def test_yaml_is_of_the_schema(block):
    """Parts of scenarios have keys and values that scenarios may have; what they lack is elsewhere."""
    data = Document.parse(block.text, str(block)).data
    if set(data) <= parts_of_scenarios().schema["properties"].keys():
        parts_of_scenarios().validate(data)


def test_blocks_have_languages():
    known = {"console", "python", "yaml", "text", "json", "markdown", "ini", "toml"}
    strange = {block.page.stem for block in blocks() if block.language not in known}
    assert strange <= ELSEWHERE.keys()


def test_the_readme_counts_the_catalog():
    folders = ("simcluster.cluster.devices", "simcluster.cluster.hosts", "simcluster.model.catalog")
    wanted = [len(data_files(folder)) for folder in folders]
    counted = re.search(r"(\d+) devices, (\d+) hosts and (\d+) models", (ROOT / "README.md").read_text())
    assert counted is not None
    assert [int(number) for number in counted.groups()] == wanted
