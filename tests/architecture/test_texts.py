"""Regular expressions read what users write, and names as users know them; never values of our own."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import simcluster

ROOT = Path(simcluster.__file__).parent
PACKAGES = {
    *("analysis", "collectives", "engine", "layout", "model", "plan", "program"),
    *("report", "search", "simulation", "trace", "tuning", "values"),
}
NUMBERS = "layers of one name are shown together: layers.*.mlp.up"
SAVED = "a report has the texts of a saved run only"
READERS = {
    "analysis/memory_usage/live_set.py": NUMBERS,
    "model/onnx/block_writer.py": "names in files of other tools become names of operators",
    "plan/manual/exchanges.py": "any text becomes a name",
    "plan/pipeline/action.py": "timetables that users write",
    "plan/spec/strategy_spec.py": "strategies that users write",
    "plan/strategies/assignment.py": NUMBERS,
    "plan/subgraphs/subgraph.py": NUMBERS,
    "program/communication/collective_overrides.py": NUMBERS,
    "report/content/run_header.py": SAVED,
    "report/perfetto/flow_arrows.py": SAVED,
    "report/terminal/weight_layouts.py": SAVED,
    "simulation/verification/shrink_offload.py": "patterns that users write",
}
"""The modules that use regular expressions, and what they read."""


def imports_re(path):
    return any(
        isinstance(node, ast.Import) and any(alias.name == "re" for alias in node.names)
        for node in ast.walk(ast.parse(path.read_text()))
    )


@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_regular_expressions_read_what_users_wrote(package):
    users = {path.relative_to(ROOT).as_posix() for path in (ROOT / package).rglob("*.py") if imports_re(path)}
    assert users == {name for name in READERS if name.startswith(f"{package}/")}
