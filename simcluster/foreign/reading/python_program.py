"""Settings and argument lists of a Python program, read out of its syntax tree; nothing of it runs."""

from __future__ import annotations

import ast
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from simcluster.deferred_dataclass import dataclass

_LONGEST = 2**20
_MOST_PARTS = 2**14
"""Characters of a text, and items of a list, that are worked out."""


@dataclass(frozen=True, slots=True)
class PythonSetting:
    """``target = value`` with dots, or a keyword of a call: ``path`` is the target's, or the function's name
    and the keyword; ``value`` is None, with the text in ``shown``, where it is not written out.
    """

    path: tuple[str, ...]
    value: Any
    shown: str
    line: int
    called: bool
    known: bool


class _Open(Exception):
    """A value that only a run would tell."""


class PythonProgram:
    """A Python program: constants by name, in the order in which they stand there."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.names: dict[str, Any] = {}
        self._name_constants()

    @staticmethod
    def parse(text: str) -> PythonProgram | None:
        """The program that a text is; None if it is none in Python, or nothing but names and values."""
        if len(text) > _LONGEST:
            return None
        try:
            with warnings.catch_warnings(action="ignore"):
                tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        if not any(isinstance(node, (ast.Import, ast.ImportFrom, ast.Call)) for node in ast.walk(tree)):
            return None
        return PythonProgram(tree)

    def settings(self) -> Iterator[PythonSetting]:
        """Assignments to attributes and keywords of calls, by their lines."""
        settings = [*self._assigned(), *self._keywords()]
        yield from sorted(settings, key=lambda setting: (setting.line, not setting.called))

    def word_lists(self) -> Iterator[list[tuple[str, int]]]:
        """Lists of texts, as for ``subprocess.run``, and texts with options in them, taken apart: the words
        and their lines, in the order of the program. What is not written out stands there as ``${...}``.
        """
        places: list[tuple[int, int, list[tuple[str, int]]]] = []
        inner: set[ast.AST] = set()
        for node in ast.walk(self.tree):
            if isinstance(node, (ast.List, ast.Tuple)):
                inner |= {*node.elts}
                items = [item for item in node.elts if not isinstance(item, ast.Starred)]  # lists themselves
                words = [(self._text(item), item.lineno) for item in items]
            elif isinstance(node, (ast.Constant, ast.JoinedStr)) and node not in inner:
                text = self._text(node)
                inner |= {*node.values} if isinstance(node, ast.JoinedStr) else set()
                words = [(word, node.lineno) for word in text.split()] if " --" in text else []
            else:
                continue
            places.append((node.lineno, node.col_offset, words))
        yield from (words for _, _, words in sorted(places, key=lambda each: each[:2]))

    def _text(self, node: ast.expr) -> str:
        if isinstance(node, ast.JoinedStr):
            return "".join(map(self._text, node.values))
        try:
            return str(self._value(node.value if isinstance(node, ast.FormattedValue) else node))
        except _Open:
            inner = node.value if isinstance(node, ast.FormattedValue) else node
            return f"${{{''.join(_shown(inner).split())}}}"

    def _assigned(self) -> Iterator[PythonSetting]:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                path = _dotted(node.targets[0])
                if len(path) > 1:
                    yield self._setting(path, node.value, called=False)

    def _keywords(self) -> Iterator[PythonSetting]:
        for node in ast.walk(self.tree):
            if not isinstance(node, ast.Call):
                continue
            name = _dotted(node.func)
            if name[-1:] in (("Config",), ("Partial",)) and node.args and _dotted(node.args[0]):
                name = _dotted(node.args[0])  # run.Config(Class, key=value)
            for keyword in node.keywords:
                if name and keyword.arg is not None:
                    yield self._setting((".".join(name), keyword.arg), keyword.value, called=True)
            if name and not node.keywords:
                yield PythonSetting((".".join(name),), None, "()", node.lineno, called=True, known=True)

    def _setting(self, path: tuple[str, ...], node: ast.expr, *, called: bool) -> PythonSetting:
        shown = _shown(node)
        try:
            return PythonSetting(path, self._value(node), shown, node.lineno, called, known=True)
        except _Open:
            return PythonSetting(path, None, shown, node.lineno, called, known=False)

    def _name_constants(self) -> None:
        """What names stand for that are set once: at the top, in functions, or as defaults of parameters."""
        nodes: list[tuple[str, ast.expr]] = []
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                if isinstance(node.targets[0], ast.Name):
                    nodes.append((node.targets[0].id, node.value))
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
                nodes.append((node.target.id, node.value))
            elif isinstance(node, ast.FunctionDef):
                arguments = node.args.args[len(node.args.args) - len(node.args.defaults) :]
                nodes += [(a.arg, value) for a, value in zip(arguments, node.args.defaults, strict=True)]
                pairs = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
                nodes += [(a.arg, value) for a, value in pairs if value is not None]
        counted = Counter(name for name, _ in nodes)
        for name, value in nodes:
            try:
                known = self._value(value)
            except _Open:
                continue
            if counted[name] > 1 and self.names.get(name, known) != known:
                known = None
            self.names[name] = known
        self.names = {name: value for name, value in self.names.items() if value is not None}

    def _value(self, node: ast.expr, depth: int = 0) -> Any:
        """A constant, a known name, sums of those, lists, f-strings and ``str`` and ``int`` of them."""
        if depth > _DEEPEST:
            raise _Open
        match node:
            case ast.Constant(value=value) if not isinstance(value, (bytes, complex)):
                return value
            case ast.Name(id=name) if name in self.names:
                return self.names[name]
            case ast.Attribute() if _dotted(node)[:1] == ("torch",):
                return ".".join(_dotted(node))
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return [self._value(item, depth + 1) for item in items]
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -_number(self._value(operand, depth + 1))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _SUMS:
                first, second = self._value(left, depth + 1), self._value(right, depth + 1)
                return _bounded(_SUMS[type(op)], first, second)
            case ast.Call(func=ast.Name(id="str" | "int" as name), args=[inner], keywords=[]):
                value = self._value(inner, depth + 1)
                return str(value) if name == "str" else int(_number(value))
            case ast.Call(args=[_, default], keywords=[]) if _dotted(node.func) in _ENVIRONMENT:
                return self._value(default, depth + 1)  # as where the variable is not set
            case ast.JoinedStr(values=parts):
                return "".join(
                    str(self._value(part.value if isinstance(part, ast.FormattedValue) else part, depth + 1))
                    for part in parts
                )
        raise _Open


def _shown(node: ast.expr) -> str:
    """A value as the program writes it, as far as it is not nested too deeply."""
    try:
        return ast.unparse(node)
    except RecursionError:
        return "..."


_DEEPEST = 50
_ENVIRONMENT = (("os", "environ", "get"), ("os", "getenv"))


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _Open
    return value


def _bounded(operation: str, first: Any, second: Any) -> Any:
    """The sum of two numbers, texts or lists; other operations of numbers alone."""
    if operation == "+" and isinstance(first, (str, list)) and type(first) is type(second):
        if len(first) + len(second) > _MOST_PARTS:
            raise _Open
        joined: Any = [*first, *second] if isinstance(first, list) else f"{first}{second}"
        return joined
    left, right = _number(first), _number(second)
    if operation in ("/", "//") and not right:
        raise _Open
    if operation == "**" and not (abs(left) < _MOST_PARTS and 0 <= right <= 64):
        raise _Open
    result = _OF_NUMBERS[operation](left, right)
    if abs(result) > 10**18:
        raise _Open
    return result


_SUMS: Mapping[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Pow: "**",
}
_OF_NUMBERS: Mapping[str, Any] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "//": lambda a, b: a // b,
    "**": lambda a, b: a**b,
}


def _dotted(node: ast.expr) -> tuple[str, ...]:
    """``a.b.c`` as its names; empty for anything else."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return (node.id, *reversed(names)) if isinstance(node, ast.Name) else ()
