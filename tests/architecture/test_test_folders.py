"""What tests share stands in tests/support, and unit tests do not run the whole simulator."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import simcluster
from tests.support.source_trees import source_nodes

ROOT = Path(simcluster.__file__).parent
TESTS = Path(__file__).parents[1]
MODULES = sorted(path for path in TESTS.rglob("test_*.py"))
WHOLE = {"build_scenario", "compare_values", "simulate", "verify"}
"""What takes a whole scenario through the simulator."""
BUILT_SCENARIOS = {
    "accuracy/runs/test_runs.py",
    "model/test_model_flops.py",
    "program/assembly/test_build_program.py",
    "program/lowering/test_formats.py",
    "program/symmetry/test_rank_classes.py",
    "program/test_checker.py",
    "report/comparison/test_comparison.py",
    "report/conftest.py",
    "report/content/test_inference_figures.py",
    "report/content/test_run_header.py",
    "report/html/test_memory.py",
    "report/perfetto/test_trace_file.py",
    "report/terminal/test_summary_screen.py",
    "scenario/test_axis_names.py",
    "scenario/test_tenants.py",
    "values/test_traffic.py",
}
"""Unit tests that may: what they read comes out of a whole scenario, or a few of many prove values."""
LOCALISED = sorted(
    f"simcluster.{path.parent.relative_to(ROOT).as_posix().replace('/', '.')}"
    for path in (ROOT / "program").glob("*/__init__.py")
) + [
    f"simcluster.tuning.{path.stem}"
    for path in sorted((ROOT / "tuning").glob("*.py"))
    if path.stem.endswith(("search", "searches"))
]
"""Sub-packages of program, and the searches of tuning."""


def imported(path: Path) -> set[tuple[str, str]]:
    """(module, name) of everything that a module imports from somewhere."""
    nodes = [node for node in source_nodes(path) if isinstance(node, ast.ImportFrom)]
    return {(node.module or "", alias.name) for node in nodes for alias in node.names}


def test_no_test_module_imports_another():
    stems = {path.stem for path in MODULES} | {"conftest"}
    wrong = [
        f"{path.relative_to(TESTS)}: {module}.{name}"
        for path in sorted(TESTS.rglob("*.py"))
        for module, name in imported(path)
        if module.startswith("tests") and {module.rpartition(".")[2], name} & stems
    ]
    assert not wrong, "what they share belongs into tests/support"


def test_unit_tests_run_no_whole_simulator_but_those_listed():
    found = {
        str(path.relative_to(TESTS / "unit"))
        for path in sorted((TESTS / "unit").rglob("*.py"))
        for module, name in imported(path)
        if module.startswith("simcluster.simulation") and name in WHOLE
    }
    assert found == BUILT_SCENARIOS


@pytest.mark.parametrize("package", LOCALISED)
def test_a_fault_is_localised_by_unit_tests_that_run_a_package_alone(package):
    """Some test of every sub-package of program and search of tuning needs no other part of the simulator."""
    folder = TESTS / "unit" / Path(*package.split(".")[1:])
    modules = [folder.with_name(f"test_{folder.name}.py"), *folder.glob("test_*.py")]
    assert any(
        any(module.startswith(package) for module, _ in imported(path))
        and str(path.relative_to(TESTS / "unit")) not in BUILT_SCENARIOS
        for path in modules
        if path.exists()
    )
