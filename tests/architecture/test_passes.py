"""Every pass of the planner has unit tests of its own: they call its function on a small graph."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

import simcluster.plan
from simcluster.plan import PASSES
from tests.support.source_trees import source_tree

PLAN = Path(simcluster.plan.__file__).parent
UNIT = Path(__file__).parents[1] / "unit" / "plan"


def called(tree: ast.AST) -> set[str]:
    """The plain names of the functions that a tree calls."""
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return {name.id for name in calls if isinstance(name, ast.Name)}


@cache
def functions() -> dict[str, set[str]]:
    """Pass -> its function; of one that is written beside the list, those that it calls."""
    found = {}
    for path in sorted(PLAN.rglob("*.py")):
        tree = source_tree(path)
        beside = {node.name: called(node) for node in tree.body if isinstance(node, ast.FunctionDef)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Pass":
                name, rewrite = node.args
                function = rewrite.args[0].id
                own = function.startswith("_")
                found[name.value] = beside[function] if own else {function}
    return found


@cache
def called_in_tests() -> set[str]:
    """The functions that unit tests of the planner call."""
    return {name for path in UNIT.rglob("test_*.py") for name in called(source_tree(path))}


@pytest.mark.parametrize("name", PASSES)
def test_a_unit_test_runs_it_alone(name):
    assert functions()[name] & called_in_tests(), f"tests/unit/plan calls none of {functions()[name]}"
