"""The settings of a configuration written in Python: literals that are assigned, read without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from simcluster.errors import Problem, ScenarioError
from simcluster.foreign.reading.flag import Flag
from simcluster.foreign.reading.python_literals import (
    UNREADABLE,
    NotLiteral,
    evaluate,
    parse_source,
    source_of,
)
from simcluster.foreign.reading.settings_files import shown_value

_OPEN = "only a run of the program would tell it"


def read_python(text: str, name: str) -> list[Flag]:
    """The assignments of a module at its outermost level, in order; a later one replaces an earlier.

    Values are what ``python_literals.evaluate`` can tell, with names that were assigned before; ``dict(a=1)``
    and mappings give settings with dotted names. Every other setting has the reason in ``missing``. Raises
    ScenarioError, with its place, for text that is no Python.
    """
    try:
        module = parse_source(text)
    except UNREADABLE as error:
        line = getattr(error, "lineno", None)
        where = f"{name}:{line}" if line else name
        raise ScenarioError(
            Problem(f"this is not Python: {getattr(error, 'msg', error)}", where=where)
        ) from None
    known: dict[str, Any] = {}
    flags: dict[str, Flag] = {}
    for statement in module.body:
        for target, value in _assigned(statement):
            for path, node in _leaves(target, value):
                flags[path] = _flag(path, node, known, f"{name}:{node.lineno}")
    return list(flags.values())


def _assigned(statement: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            if isinstance(target, ast.Name):
                yield target.id, statement.value
    elif isinstance(statement, ast.AnnAssign) and statement.value and isinstance(statement.target, ast.Name):
        yield statement.target.id, statement.value


def _leaves(path: str, node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """The values of a mapping, however it is written, with their paths; other values as they are."""
    inner: list[tuple[str, ast.expr]] = []
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
        inner = [(keyword.arg, keyword.value) for keyword in node.keywords if keyword.arg]
    elif isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        inner = [(str(key.value), value) for key, value in pairs if isinstance(key, ast.Constant)]
    if not inner:
        yield path, node
    for key, value in inner:
        yield from _leaves(f"{path}.{key}", value)


def _flag(path: str, node: ast.expr, known: dict[str, Any], where: str) -> Flag:
    try:
        value = evaluate(node, known)
    except NotLiteral:
        known.pop(path, None)
        return Flag(path, None, f"{path} = {source_of(node)}", where, missing=_OPEN)
    known[path] = value
    return Flag(path, value, f"{path} = {shown_value(value)}", where)
