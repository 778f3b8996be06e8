"""Settings and argument lists of a Python program, read out of its syntax tree; nothing of it runs."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from typing import Any

from simcluster.deferred_dataclass import dataclass
from simcluster.foreign.reading.python_literals import (
    LONGEST,
    UNREADABLE,
    NotLiteral,
    dotted_name,
    evaluate,
    parse_source,
    source_of,
)


@dataclass(frozen=True, slots=True)
class PythonSetting:
    """An assignment to a dotted name, or a keyword argument of a call."""

    path: tuple[str, ...]
    """Names of the target, or the function's dotted name and the keyword; the former alone without any."""
    value: Any
    """The value; None if it is not known."""
    shown: str
    """The value as the source writes it."""
    line: int
    """Line of the file, from 1."""
    called: bool
    """Whether it is of a call."""
    known: bool
    """Whether the value can be told without running the program."""


class PythonProgram:
    """A Python program with the values of its names, as far as they can be told without running it."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.names: dict[str, Any] = {}
        self._name_constants()
        self._imported = dict(_imported_functions(tree))
        self._scopes = [*self._parameters()]

    @staticmethod
    def parse(text: str) -> PythonProgram | None:
        """The program in a text; None for one that is no Python, or neither imports nor calls anything."""
        try:
            tree = parse_source(text)
        except UNREADABLE:
            return None
        if not any(isinstance(node, (ast.Import, ast.ImportFrom, ast.Call)) for node in ast.walk(tree)):
            return None
        return PythonProgram(tree)

    def settings(self) -> Iterator[PythonSetting]:
        """Assignments to attributes and keyword arguments of calls, in the order of their lines."""
        settings = [*self._assigned(), *self._keywords()]
        yield from sorted(settings, key=lambda setting: (setting.line, not setting.called))

    def functions(self) -> dict[str, tuple[int, int]]:
        """The outermost functions by name, with their first and last line."""
        functions = [node for node in self.tree.body if isinstance(node, ast.FunctionDef)]
        return {node.name: (node.lineno, node.end_lineno or node.lineno) for node in functions}

    def first_arguments(self) -> Iterator[PythonSetting]:
        """Calls with arguments that have no keyword, and the first of these, in the order of their lines."""
        calls = [node for node in ast.walk(self.tree) if isinstance(node, ast.Call) and node.args]
        for node in sorted(calls, key=lambda call: call.lineno):
            if name := dotted_name(node.func):
                yield self._setting((".".join(name),), node.args[0], called=True)

    def word_lists(self) -> Iterator[list[tuple[str, int]]]:
        """Lists of words as for ``subprocess.run``, and texts with options split at spaces: pairs of word and
        line, in the order of the program. ``${...}`` stands for what only a run of the program would tell.
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
        """A text as far as it is written out, with ``${...}`` for what a run alone would tell."""
        if isinstance(node, ast.JoinedStr):
            parts, length = [], 0
            for part in map(self._text, node.values):
                parts.append(part)
                length += len(part)
                if length > LONGEST:
                    return "${...}"
            return "".join(parts)
        try:
            return str(evaluate(node, self.names))
        except NotLiteral:
            inner = node.value if isinstance(node, ast.FormattedValue) else node
            return f"${{{''.join(source_of(inner).split())}}}"

    def _assigned(self) -> Iterator[PythonSetting]:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                path = dotted_name(node.targets[0])
                if len(path) > 1:
                    yield self._setting(path, node.value, called=False)

    def _keywords(self) -> Iterator[PythonSetting]:
        for node in ast.walk(self.tree):
            if not isinstance(node, ast.Call):
                continue
            name = dotted_name(node.func)
            name = (*self._imported[name[0]], *name[1:]) if name and name[0] in self._imported else name
            if name[-1:] in (("Config",), ("Partial",)) and node.args and dotted_name(node.args[0]):
                name = dotted_name(node.args[0])  # run.Config(Class, key=value)
            for keyword in node.keywords:
                if name and keyword.arg is not None:
                    yield self._setting((".".join(name), keyword.arg), keyword.value, called=True)
            if name and not node.keywords:
                yield PythonSetting((".".join(name),), None, "()", node.lineno, called=True, known=True)

    def _setting(self, path: tuple[str, ...], node: ast.expr, *, called: bool) -> PythonSetting:
        shown = source_of(node)
        names = self._names_on(node.lineno)
        try:
            return PythonSetting(path, evaluate(node, names), shown, node.lineno, called, known=True)
        except NotLiteral:
            return PythonSetting(path, None, shown, node.lineno, called, known=False)

    def _names_on(self, line: int) -> dict[str, Any]:
        """The values of names on a line, those of the parameters of functions around it among them."""
        names = self.names
        for first, last, parameters in self._scopes:
            if first <= line <= last:
                names = {**names, **parameters}
        return names

    def _parameters(self) -> Iterator[tuple[int, int, dict[str, Any]]]:
        """First and last line of every function, and the values of its parameters: what its only call passes,
        else the default.
        """
        calls: dict[str, list[ast.Call]] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                calls.setdefault(node.func.id, []).append(node)
        functions = [node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef)]
        for node in sorted(functions, key=lambda function: function.lineno):
            written: dict[str, ast.expr | None] = {**_defaults(node)}
            for call in calls.get(node.name, ()):
                passed = _passed(node, call)
                alone = len(calls[node.name]) == 1
                written |= {name: value if alone else None for name, value in passed.items()}
            known: dict[str, Any] = {}
            for name, value in written.items():
                try:
                    known[name] = None if value is None else evaluate(value, self.names)
                except NotLiteral:
                    continue
            yield (
                node.lineno,
                node.end_lineno or node.lineno,
                {k: v for k, v in known.items() if v is not None},
            )

    def _name_constants(self) -> None:
        """Sets the values of names, assigned or defaults of parameters, that have one value only."""
        nodes: list[tuple[str, ast.expr]] = []
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                if isinstance(node.targets[0], ast.Name):
                    nodes.append((node.targets[0].id, node.value))
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
                nodes.append((node.target.id, node.value))
            elif isinstance(node, ast.FunctionDef):
                nodes += _defaults(node).items()
        counted = Counter(name for name, _ in nodes)
        for name, value in nodes:
            try:
                known = evaluate(value, self.names)
            except NotLiteral:
                continue
            if counted[name] > 1 and self.names.get(name, known) != known:
                known = None
            self.names[name] = known
        self.names = {name: value for name, value in self.names.items() if value is not None}


def _defaults(function: ast.FunctionDef) -> dict[str, ast.expr]:
    """The parameters of a function that have a default, with it."""
    given = function.args
    last = given.args[len(given.args) - len(given.defaults) :]
    values = {parameter.arg: value for parameter, value in zip(last, given.defaults, strict=True)}
    pairs = zip(given.kwonlyargs, given.kw_defaults, strict=True)
    return values | {parameter.arg: value for parameter, value in pairs if value is not None}


def _passed(function: ast.FunctionDef, call: ast.Call) -> dict[str, ast.expr]:
    """What a call passes to a function, by the names of its parameters."""
    by_place = zip(function.args.args, call.args, strict=False)
    values = {parameter.arg: value for parameter, value in by_place if not isinstance(value, ast.Starred)}
    return values | {
        parameter.arg: parameter.value for parameter in call.keywords if parameter.arg is not None
    }


def _imported_functions(tree: ast.Module) -> Iterator[tuple[str, tuple[str, str]]]:
    """Functions by the names that a program imports them under, with the last name of their module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for imported in node.names:
                if imported.name[:1].islower():
                    yield imported.asname or imported.name, (node.module.rpartition(".")[2], imported.name)
