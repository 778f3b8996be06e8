"""Integer arithmetic of shell scripts: sums and comparisons over known names."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable

_CHOICE = re.compile(r"([^?:]*)\?([^?:]*):([^?:]*)")

LONGEST = 200
"""Characters of an expression."""


def arithmetic_words(text: str) -> str:
    """An expression with the signs for and, or, not and a choice (``a ? b : c``) as words."""
    text = text.strip().replace("&&", " and ").replace("||", " or ")
    text = text.replace("!", " not ").replace(" not =", "!=")
    choice = _CHOICE.fullmatch(text)
    return f"({choice[2]}) if ({choice[1]}) else ({choice[3]})" if choice else text


def evaluate_arithmetic(text: str, value: Callable[[str], str]) -> int | None:
    """The value of an expression, its names looked up with ``value``; None if it is none of integers."""
    try:
        return _evaluated(ast.parse(text.strip(), mode="eval").body, value)
    except (SyntaxError, ValueError, RecursionError, MemoryError, ArithmeticError):
        return None


def _evaluated(node: ast.expr, value: Callable[[str], str]) -> int:
    """Integers, names, + - * / %, comparisons, and, or, not; ValueError for anything else."""
    match node:
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            return number
        case ast.Name(id=name):
            return int(value(name))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            result = _OPERATORS[type(op)](_evaluated(left, value), _evaluated(right, value))
            if abs(result) >= 2**63:
                raise ValueError("too large")
            return result
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluated(operand, value)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return int(not _evaluated(operand, value))
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARED:
            return int(_COMPARED[type(op)](_evaluated(left, value), _evaluated(right, value)))
        case ast.IfExp(test=test, body=body, orelse=otherwise):
            return _evaluated(body if _evaluated(test, value) else otherwise, value)
        case ast.BoolOp(op=op, values=values):
            truths = [bool(_evaluated(part, value)) for part in values]
            return int(all(truths) if isinstance(op, ast.And) else any(truths))
    raise ValueError("not integer arithmetic")


_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARED: dict[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
