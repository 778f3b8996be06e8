"""Source files as syntax trees, each parsed once for all tests that read it."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def source_tree(path: Path) -> ast.Module:
    """What a file of Python says; whoever changes a tree takes a copy."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def source_nodes(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of a file's tree."""
    return tuple(ast.walk(source_tree(path)))
