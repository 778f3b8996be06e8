"""Values of expressions in Python source: literals, arithmetic and known names; nothing of it runs.

Both readers of Python files (``python_program``, ``python_settings``) evaluate with it. A source may come
from anywhere: its size, the depth of nesting, and the sizes of texts, lists and numbers are bounded.
"""

from __future__ import annotations

import ast
import operator
import warnings
from collections.abc import Callable, Mapping
from typing import Any

UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
"""What ``parse_source`` raises for a text that is no Python, too long, or nested too deeply."""

LONGEST = 2**20
"""Characters of a source, and of a text made of its parts."""

_LARGEST = 2**14
"""Characters and items, counted together, of a text or list that is made of others."""

_DEEPEST = 50
"""Levels of nested expressions."""

_HIGHEST = 10**18
"""Absolute value of the numbers in arithmetic."""

_MOST_BITS = 2**12
"""Bits of a literal integer: Python itself writes no integer of more than 4,300 digits."""

_OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
}
_ENVIRONMENT = (("os", "environ", "get"), ("os", "getenv"))


class NotLiteral(Exception):
    """An expression whose value only a run of the program would tell."""


def parse_source(text: str) -> ast.Module:
    """The syntax tree of a Python source; raises one of ``UNREADABLE``."""
    if len(text) > LONGEST:
        raise ValueError(f"the source has more than {LONGEST:,} characters")
    with warnings.catch_warnings(action="ignore"):
        return ast.parse(text.removeprefix("\ufeff"))


def evaluate(node: ast.expr, names: Mapping[str, Any]) -> Any:
    """The value of an expression, given those of names; tuples are lists. Raises NotLiteral.

    Evaluated are literals, f-strings, arithmetic with numbers, sums of texts or lists, ``str(...)`` and
    ``int(...)``, ``torch.bfloat16`` as its name, and ``os.getenv(name, default)`` as the default.
    """
    return _value(node, names, 0)


def source_of(node: ast.expr) -> str:
    """An expression as Python writes it; "..." where it is nested too deeply or has too long a number."""
    try:
        return ast.unparse(node)
    except (RecursionError, ValueError):
        return "..."


def dotted_name(node: ast.expr) -> tuple[str, ...]:
    """``a.b.c`` as its names; empty for anything else."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return (node.id, *reversed(names)) if isinstance(node, ast.Name) else ()


def _value(node: ast.expr, names: Mapping[str, Any], depth: int) -> Any:
    if depth > _DEEPEST:
        raise NotLiteral
    match node:
        case ast.Constant(value=value) if value is None or isinstance(value, (bool, int, float, str)):
            if type(value) is int and value.bit_length() > _MOST_BITS:
                raise NotLiteral
            return value
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.Attribute() if dotted_name(node)[:1] == ("torch",):
            return ".".join(dotted_name(node))
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return _bounded([_value(item, names, depth + 1) for item in items])
        case ast.Dict(keys=keys, values=values):
            return _mapping(keys, values, names, depth + 1)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_number(_value(operand, names, depth + 1))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _combined(type(op), _value(left, names, depth + 1), _value(right, names, depth + 1))
        case ast.JoinedStr(values=parts):
            return _bounded("".join(str(_value(part, names, depth + 1)) for part in parts))
        case ast.FormattedValue(value=inner, conversion=-1, format_spec=None):
            return _value(inner, names, depth + 1)
        case ast.Call():
            return _called(node, names, depth + 1)
    raise NotLiteral


def _mapping(
    keys: list[ast.expr | None], values: list[ast.expr], names: Mapping[str, Any], depth: int
) -> dict[str, Any]:
    """A mapping whose keys are texts."""
    items: dict[str, Any] = {}
    for key, value in zip(keys, values, strict=True):
        if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
            raise NotLiteral
        items[key.value] = _value(value, names, depth)
    _bounded(list(items.values()))
    return items


def _called(node: ast.Call, names: Mapping[str, Any], depth: int) -> Any:
    """Conversions, and what a variable of the environment is where it is not set."""
    match node:
        case ast.Call(func=ast.Name(id="str"), args=[inner], keywords=[]):
            return _bounded(str(_value(inner, names, depth)))
        case ast.Call(func=ast.Name(id="int"), args=[inner], keywords=[]):
            return int(_small(_value(inner, names, depth)))
        case ast.Call(args=[_, default], keywords=[]) if dotted_name(node.func) in _ENVIRONMENT:
            return _value(default, names, depth)
    raise NotLiteral


def _combined(kind: type[ast.operator], first: Any, second: Any) -> Any:
    """The sum of two texts or lists, or what an operation makes of two numbers."""
    if kind is ast.Add and isinstance(first, (str, list)) and type(first) is type(second):
        joined: Any = [*first, *second] if isinstance(first, list) else f"{first}{second}"
        return _bounded(joined)
    left, right = _small(first), _small(second)
    if kind in (ast.Div, ast.FloorDiv) and not right:
        raise NotLiteral
    if kind is ast.Pow and not (0 <= left < _LARGEST and 0 <= right <= 64):
        raise NotLiteral
    return _small(_OPERATORS[kind](left, right))


def _number(value: Any) -> Any:
    if type(value) not in (int, float):
        raise NotLiteral
    return value


def _small(value: Any) -> Any:
    """A number within the bound, which neither infinity nor what is no number is."""
    if not abs(_number(value)) <= _HIGHEST:
        raise NotLiteral
    return value


def _bounded(value: Any) -> Any:
    """A text or list that has no more characters and items together than the bound."""
    if _size(value, _LARGEST) > _LARGEST:
        raise NotLiteral
    return value


def _size(value: Any, limit: int) -> int:
    """Characters and items of a value, counted no further than just beyond a limit."""
    if isinstance(value, str):
        return max(1, len(value))
    if not isinstance(value, (list, dict)):
        return 1
    total = 1
    for item in value.values() if isinstance(value, dict) else value:
        total += _size(item, limit - total)
        if total > limit:
            break
    return total
