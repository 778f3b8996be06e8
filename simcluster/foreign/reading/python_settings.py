"""The settings of a configuration written in Python: literals that are assigned, read without running it."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from simcluster.errors import Problem, ScenarioError
from simcluster.foreign.reading.flag import Flag
from simcluster.foreign.reading.settings_files import shown_value

_ARITHMETIC: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}
_OPEN = "only Python could tell what this is"


class _Unknown(Exception):
    """A value that is no literal."""


def read_python(text: str, name: str) -> list[Flag]:
    """The assignments of a module at its outermost level, in order; a later one replaces an earlier.

    Values are literals, arithmetic with numbers, and names that were assigned before; ``dict(a=1)`` and
    mappings give settings with dotted names. Every other value is left open. Raises ScenarioError, with its
    place, for text that is no Python.
    """
    try:
        module = ast.parse(text.removeprefix("\ufeff"))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
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
        value = _value(node, known)
    except _Unknown:
        known.pop(path, None)
        return Flag(path, None, f"{path} = {ast.unparse(node)}", where, missing=_OPEN)
    known[path] = value
    return Flag(path, value, f"{path} = {shown_value(value)}", where)


def _value(node: ast.expr, known: Mapping[str, Any]) -> Any:
    """The value of an expression of literals; _Unknown for any other."""
    if isinstance(node, ast.Name) and node.id in known:
        return known[node.id]
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        left, right = _value(node.left, known), _value(node.right, known)
        numbers = all(type(value) in (int, float) and abs(value) < 1e18 for value in (left, right))
        divides = isinstance(node.op, (ast.Div, ast.FloorDiv))
        if not numbers or (divides and right == 0):
            raise _Unknown
        return _ARITHMETIC[type(node.op)](left, right)
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        raise _Unknown from None
