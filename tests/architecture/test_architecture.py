"""The architecture as a test: layers, public names, file sizes, the schema, types and style."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import simcluster
from simcluster.scenario import scenario_schema
from tests.support.source_trees import source_nodes

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "simcluster").rglob("*.py"))
MOST_LINES = 500


def tool(*command):
    """Runs a tool as a module of this interpreter's environment."""
    found = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout + found.stderr


def test_imports_keep_to_their_rooms():
    code = "from importlinter.cli import lint_imports; raise SystemExit(lint_imports())"
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.thorough
def test_types():
    tool("mypy")


def test_style():
    tool("ruff", "check", ".")


def test_format():
    tool("ruff", "format", "--check", ".")


def test_no_file_is_too_long():
    written = [*SOURCES, *(ROOT / "tests").rglob("*.py")]
    long = [str(path) for path in written if len(path.read_text().splitlines()) > MOST_LINES]
    assert not long


def test_no_vague_names():
    vague = {"utils", "util", "helpers", "helper", "manager", "misc", "common"}
    assert not [path for path in SOURCES if path.stem in vague or vague & set(path.parts)]


def test_nothing_is_asserted_of_users_or_passed_over():
    """No bare except, no except that passes, no eval, no pickle; ``exec`` writes ``__init__`` alone, of the
    names of fields, as in the standard library.
    """
    for path in SOURCES:
        for node in source_nodes(path):
            if isinstance(node, ast.ExceptHandler):
                assert node.type is not None, path
                assert not (len(node.body) == 1 and isinstance(node.body[0], ast.Pass)), path
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id != "eval", path
                assert node.func.id != "exec" or path.name == "deferred_dataclass.py", path
            if isinstance(node, ast.Import):
                assert not {alias.name for alias in node.names} & {"pickle", "marshal", "shelve"}, path


def test_public_names():
    assert sorted(simcluster.__all__) == sorted(
        [
            "MindSporeLayout",
            "PlanError",
            "Result",
            "Scenario",
            "ScenarioError",
            "SimclusterError",
            "SimulationError",
            "TraceError",
            "__version__",
            "advise",
            "catalog",
            "check",
            "collective",
            "compare",
            "explain",
            "find_plan",
            "graph",
            "infer_predict_layout",
            "load",
            "search",
            "shard",
            "shard_rows",
            "simulate",
            "sweep",
            "verify",
            "whatif",
        ]
    )
    for name in simcluster.__all__:
        assert getattr(simcluster, name) is not None
    assert set(simcluster.__all__) <= set(dir(simcluster))


def test_the_shipped_schema_is_fresh():
    """scenarios/scenario.schema.json is what ``simcluster schema`` prints."""
    shipped = json.loads((ROOT / "scenarios" / "scenario.schema.json").read_text())
    assert shipped == json.loads(json.dumps(scenario_schema()))


def test_shipped_scenarios_carry_the_editor_hint():
    for path in (ROOT / "scenarios").glob("*.yaml"):
        first, second = path.read_text().splitlines()[:2]
        assert first == "# yaml-language-server: $schema=./scenario.schema.json", path
        assert second.startswith("# "), f"{path} does not say what it shows"


def test_the_top_level_is_what_users_expect():
    found = {path.name for path in ROOT.iterdir() if not path.name.startswith(".")}
    ignored = {"build", "dist", "out", "trace.json.gz"}  # what building and the README's first command write
    assert found - ignored == {"pyproject.toml", "README.md", "simcluster", "scenarios", "tests", "notebooks"}
