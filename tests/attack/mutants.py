"""Mutants: the rules of the code with one thing changed each, as a slip of the pen would.

Every place of the syntax tree where a kind of change applies is a mutant. Which of them are tried is drawn by
a hash of what the code says there, not of where it stands: the draw stays what it is when other code changes
or moves.
"""

from __future__ import annotations

import ast
import copy
import gc
import hashlib
import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType

import simcluster

PACKAGES = ("analysis", "plan", "program", "engine", "values", "collectives", "layout")
"""Where the rules are: of planning, lowering, timing and replaying, and what times mean."""
ROOT = Path(simcluster.__file__).parent
NO_RULES = (
    "spec",
    "hints",
    "profile_description",
    "switch_words",
    "notes",
    "limits",
    "deadlock",
    "schedule_validation",
    "names",
    "mindspore",
)
"""Modules of words: what a section looks like, what is refused or told in which words."""
NO_FUNCTIONS = (
    "document",
    "digest",
    "describe",
    "check",
    "refus",
    "problem",
    "label",
    "title",
    "text",
    "html",
    "hint",
    "_notes",
)
"""Functions of words, and checks: without them nothing that is right becomes wrong. Validators are, too."""

Change = Callable[[ast.AST], Iterator[ast.AST]]


@dataclass(frozen=True)
class Mutant:
    """In a function of a module the ``number``-th place that reads ``before`` reads ``after``."""

    module: str
    function: str
    before: str
    after: str
    number: int
    tree: ast.Module
    place: ast.AST
    instead: ast.AST | None

    @property
    def key(self) -> str:
        """What it is called: the same as long as the function says the same there."""
        repeated = f" #{self.number}" if self.number else ""
        return f"{self.function}: {self.before} -> {self.after}{repeated}"

    @property
    def rank(self) -> str:
        """Its place in the draw."""
        return hashlib.sha256(f"1 {self.key}".encode()).hexdigest()

    @property
    def line(self) -> tuple[str, int]:
        """Where it is: in which line of which module."""
        at = self.place.target if isinstance(self.place, ast.comprehension) else self.place
        return self.module, getattr(at, "lineno", 0)


def in_order() -> list[Mutant]:
    """All mutants in the order in which they are drawn, the same as long as the code is the same."""
    return sorted(_all().values(), key=lambda each: each.rank)


def named(key: str) -> Mutant | None:
    """The mutant of a key; None if the code does not say that any more."""
    return _all().get(key)


def plant(mutant: Mutant | None) -> None:
    """Puts a mutant in place of the code of its function, for the rest of this process."""
    assert mutant is not None, "the code does not say that any more"
    module = importlib.import_module(mutant.module)
    assert module.__file__ is not None
    code = _code_of(compile(mutated(mutant), module.__file__, "exec"), mutant.function)
    functions = [
        each
        for each in gc.get_objects()
        if isinstance(each, FunctionType)
        and each.__code__.co_filename == module.__file__
        and each.__code__.co_qualname == mutant.function
        and each.__code__.co_firstlineno == code.co_firstlineno
    ]
    assert functions, f"{mutant} is not there"
    for function in functions:
        function.__code__ = code


def mutated(mutant: Mutant) -> ast.Module:
    """The module's tree with the change made."""
    swap = _Swap(mutant.place, mutant.instead)
    tree = swap.visit(_copy_but(mutant.tree, mutant.place))
    return ast.fix_missing_locations(tree)


@cache
def _all() -> dict[str, Mutant]:
    found: list[Mutant] = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if not path.stem.endswith(NO_RULES):
                found += _of_module(path)
    return {each.key: each for each in found}


def _of_module(path: Path) -> Iterator[Mutant]:
    tree = ast.parse(path.read_text())
    module = ".".join(("simcluster", *path.relative_to(ROOT).with_suffix("").parts))
    for function, node in _functions(tree, ""):
        seen: dict[tuple[str, str], int] = {}
        for place in _places(node):
            for change in CHANGES:
                for instead in change(place):
                    before, after = _said(place), _said(instead)
                    if before == after:
                        continue
                    number = seen[before, after] = seen.get((before, after), -1) + 1
                    yield Mutant(module, function, before, after, number, tree, place, instead)


def _functions(tree: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Functions of the module and methods of its classes; what is inside of a function is part of it."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef):
            name = node.name
            words = name.startswith("__") or any(each in name for each in NO_FUNCTIONS)
            checks = any("validator" in ast.unparse(each) for each in node.decorator_list)
            if not words and not checks:
                yield f"{prefix}{name}", node


def _places(node: ast.AST) -> Iterator[ast.AST]:
    """Everything in a function, but for what is only said: errors, texts, annotations."""
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "defaults", "kw_defaults"):
            continue
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, (ast.Raise, ast.JoinedStr, ast.Assert)) or not isinstance(each, ast.AST):
                continue
            yield each
            yield from _places(each)


def _said(node: ast.AST | None) -> str:
    text = "nothing" if node is None else " ".join(ast.unparse(node).split())
    return text if len(text) <= 90 else f"{text[:60]}…{hashlib.sha256(text.encode()).hexdigest()[:8]}"


class _Swap(ast.NodeTransformer):
    def __init__(self, place: ast.AST, instead: ast.AST | None) -> None:
        self.place, self.instead = place, instead

    def visit(self, node: ast.AST) -> ast.AST:
        if node is self.place:
            assert self.instead is not None
            return ast.copy_location(self.instead, node)
        return self.generic_visit(node)


def _copy_but(tree: ast.Module, place: ast.AST) -> ast.Module:
    """A copy of a tree in which the place itself stands."""
    return copy.deepcopy(tree, {id(place): place})


def _code_of(module: CodeType, name: str) -> CodeType:
    codes = [module]
    for code in codes:
        if code.co_qualname == name:
            return code
        codes += [each for each in code.co_consts if isinstance(each, CodeType)]
    raise KeyError(name)


# -- kinds of changes -----------------------------------------------------------------------------------

_COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_ARITHMETIC = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip
_CALLS = {
    "min": "max",
    "max": "min",
    "any": "all",
    "all": "any",
    "sorted": "list",
    "reversed": "list",
    "ceil": "int",
}


def other_comparison(node: ast.AST) -> Iterator[ast.AST]:
    """A border that is moved, a test that is turned around."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield ast.Compare(node.left, [_COMPARISONS[type(node.ops[0])]()], node.comparators)


def other_arithmetic(node: ast.AST) -> Iterator[ast.AST]:
    """A sum for a difference, a product for a quotient, a union for an intersection."""
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        yield ast.BinOp(node.left, _ARITHMETIC[type(node.op)](), node.right)


def one_more(node: ast.AST) -> Iterator[ast.AST]:
    """A number that is off by one."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        yield ast.Constant(node.value + 1)


def other_condition(node: ast.AST) -> Iterator[ast.AST]:
    """A condition that is turned around, or of which a part is forgotten."""
    if isinstance(node, ast.IfExp):
        yield ast.IfExp(node.test, node.orelse, node.body)
    if isinstance(node, ast.BoolOp):
        yield ast.BoolOp(ast.And() if isinstance(node.op, ast.Or) else ast.Or(), node.values)
        yield node.values[0]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.operand
    if isinstance(node, ast.comprehension) and node.ifs:
        yield ast.comprehension(node.target, node.iter, [], node.is_async)


def left_out(node: ast.AST) -> Iterator[ast.AST]:
    """A step that is left out: an edge, a term, a release; an element of what is listed."""
    if (isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant)) or isinstance(
        node, (ast.AugAssign, ast.Continue)
    ):
        yield ast.Pass()
    if isinstance(node, (ast.List, ast.Tuple)) and isinstance(node.ctx, ast.Load):
        for index, each in enumerate(node.elts):
            if isinstance(each, ast.Starred):
                yield type(node)([*node.elts[:index], *node.elts[index + 1 :]], node.ctx)


def other_order(node: ast.AST) -> Iterator[ast.AST]:
    """An order that is turned around or forgotten, the wrong end of two, two arguments that change places."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CALLS:
        yield ast.Call(ast.Name(_CALLS[node.func.id], ast.Load()), node.args, [])
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice) and node.slice.step is not None:
        yield node.value
    if (
        isinstance(node, ast.Call)
        and len(node.args) == 2
        and not any(isinstance(a, ast.Starred) for a in node.args)
    ):
        called = node.func.id if isinstance(node.func, ast.Name) else ""
        if called not in ("isinstance", "zip", "min", "max", "getattr"):
            yield ast.Call(node.func, node.args[::-1], node.keywords)


CHANGES: tuple[Change, ...] = (
    other_comparison,
    other_arithmetic,
    one_more,
    other_condition,
    left_out,
    other_order,
)
