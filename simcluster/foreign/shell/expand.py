"""Statements -> words with their variables filled in, every character knowing the line it was written on."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from simcluster.foreign.shell.reader import statements
from simcluster.foreign.shell.syntax import (
    Assignment,
    Literal,
    Opaque,
    Part,
    Statement,
    Sum,
    Variable,
    Word,
    broken,
)

_MOST = 2**20
"""Characters that all words of a script may have together once variables are filled in."""

_ARGUMENTS = {"@", "*"}
_LONGEST_SUM = 200


@dataclass(frozen=True, slots=True)
class Field:
    """A word after expansion: pieces of text with their lines, and what could not be filled in."""

    pieces: tuple[tuple[str, int], ...]
    missing: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The whole text; what is missing stands as it is written."""
        return "".join(text for text, _ in self.pieces)

    @property
    def line(self) -> int:
        """Where it begins."""
        return self.pieces[0][1] if self.pieces else 0

    def split(self) -> list[Field]:
        """The words in it, blanks between them dropped."""
        found: list[Field] = []
        current: list[tuple[str, int]] = []
        for text, line in self.pieces:
            for index, part in enumerate(_at_blanks(text)):
                if index and current:
                    found.append(Field(tuple(current), self.missing))
                    current = []
                if part:
                    current.append((part, line))
        if current:
            found.append(Field(tuple(current), self.missing))
        return [Field(each.pieces, tuple(m for m in self.missing if m in each.text)) for each in found]


def _at_blanks(text: str) -> list[str]:
    """Like ``str.split`` with empty ends kept, so that words that touch other pieces are told apart."""
    for blank in "\t\n\r":
        text = text.replace(blank, " ")
    return text.split(" ")


@dataclass(frozen=True, slots=True)
class Command:
    """The words of one command."""

    fields: tuple[Field, ...]
    line: int
    sure: bool


@dataclass
class Script:
    """A script whose variables are filled in as far as its text tells."""

    name: str
    commands: list[Command] = field(default_factory=list)
    values: dict[str, list[Field]] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)


def read_script(text: str, name: str, given: Mapping[str, str]) -> Script:
    """The commands of a script; ``given`` are variables that win over what the script says.

    Raises ScenarioError for text that is no shell script, with the line.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    expander = _Expander(name, given)
    for statement in statements(text, name):
        expander.take(statement)
    return expander.script


class _Expander:
    def __init__(self, name: str, given: Mapping[str, str]) -> None:
        self.given = given
        self.script = Script(name)
        self.branched: dict[str, list[int]] = {}
        self.size = 0

    def take(self, statement: Statement) -> None:
        """Follows a statement: its assignments count from here on, its words become a command."""
        for assignment in statement.assignments:
            if statement.words:
                continue  # an environment variable of that command alone
            self.assign(assignment, statement.sure)
        if not statement.words:
            return
        fields = tuple(self.fields(statement.words))
        self.script.commands.append(Command(fields, statement.line, statement.sure))
        if fields and fields[0].text in ("source", ".") and len(fields) > 1:
            self.remark(
                statement.line, f"'{fields[1].text}' is not read with it; give what it sets with --var"
            )

    def assign(self, assignment: Assignment, sure: bool) -> None:
        name, values = assignment.name, self.script.values
        if name in self.given:
            return
        if isinstance(assignment.value, tuple):
            fields = list(self.fields(assignment.value))
        else:
            fields = [self.joined(assignment.value)]
        before = values.get(name, [])
        if assignment.append and isinstance(assignment.value, Word) and before:
            last = before[-1]
            fields = [*before[:-1], Field(last.pieces + fields[0].pieces, last.missing + fields[0].missing)]
        elif assignment.append:
            fields = [*before, *fields]
        same = [each.text for each in before] == [each.text for each in fields]
        if sure:
            values[name] = fields
            self.branched.pop(name, None)
        elif not same:
            self.branched.setdefault(name, []).append(assignment.line)

    def fields(self, words: Iterable[Word]) -> Iterator[Field]:
        """Words with their variables filled in; unquoted values fall apart at blanks."""
        for word in words:
            whole = self.whole(word)
            if whole is not None:
                yield from whole
                continue
            joined = self.joined(word)
            if word.quoted or not any(isinstance(part, Variable) for part in word.parts):
                yield joined
            else:
                yield from joined.split()

    def whole(self, word: Word) -> list[Field] | None:
        """The items of a word that is just ``"${ARRAY[@]}"`` or ``$@``."""
        if len(word.parts) != 1 or not isinstance(word.parts[0], Variable):
            return None
        part = word.parts[0]
        if part.name in _ARGUMENTS and part.name not in self.given:
            self.arguments(part)
            return []
        if part.index in _ARGUMENTS and part.name not in self.given and self.known(part.name):
            items = self.script.values[part.name]
            self.grow(sum(len(item.text) for item in items), part.line)
            return items if part.quoted else [piece for item in items for piece in item.split()]
        return None

    def joined(self, word: Word) -> Field:
        """A word as one field."""
        pieces: list[tuple[str, int]] = []
        missing: list[str] = []
        for part in word.parts:
            found = self.part(part)
            pieces += found.pieces
            missing += found.missing
        self.grow(sum(len(text) for text, _ in pieces), word.line)
        return Field(tuple(pieces) or (("", word.line),), tuple(dict.fromkeys(missing)))

    def part(self, part: Part) -> Field:
        match part:
            case Literal(text, line):
                return Field(((text, line),))
            case Opaque(text, line):
                return Field(((text, line),), (text,))
            case Sum(text, line):
                found = self.computed(text)
                shown = f"$(({text}))"
                return Field(((shown, line),), (shown,)) if found is None else Field(((str(found), line),))
        return self.variable(part)

    def variable(self, part: Variable) -> Field:
        name, line = part.name, part.line
        if name in self.given:
            return Field(((self.given[name], line),))
        if name in _ARGUMENTS:
            return self.arguments(part)
        if self.known(name):
            items = self.script.values[name]
            if part.index.isdigit() and len(part.index) < 6:
                items = items[int(part.index) : int(part.index) + 1]
            elif part.index not in ("", "@", "*"):
                items = []
            elif not part.index:
                items = items[:1]
            if items:
                pieces = [piece for item in items for piece in ((" ", line), *item.pieces)][1:]
                return Field(tuple(pieces), tuple(m for item in items for m in item.missing))
        if part.default is not None and name not in self.branched:
            return self.joined(part.default)
        index = f"[{part.index}]" if part.index else ""
        shown = f"${{{name}{index}}}"
        return Field(((shown, line),), (shown,))

    def arguments(self, part: Variable) -> Field:
        """What the script is called with: nothing that its text could tell."""
        self.remark(part.line, f"what the script is called with (${part.name}) is not known")
        return Field((("", part.line),))

    def known(self, name: str) -> bool:
        """Whether the script says what a variable is, without a condition."""
        if name in self.branched:
            lines = " and ".join(map(str, self.branched[name]))
            self.remark(
                self.branched[name][0],
                f"{name} is set under a condition (line {lines}); say it with --var {name}=...",
            )
            return False
        return name in self.script.values

    def computed(self, text: str) -> int | None:
        """The value of integer arithmetic, or None where the text does not tell."""
        if len(text) > _LONGEST_SUM:
            return None
        filled = self.joined(Word(tuple(_dollars(text)), 0))
        if filled.missing:
            return None
        try:
            return self.evaluated(ast.parse(filled.text.strip(), mode="eval").body)
        except (SyntaxError, ValueError, RecursionError, MemoryError, ArithmeticError):
            return None

    def evaluated(self, node: ast.expr) -> int:
        """Integers, names, + - * / % and brackets; ValueError for anything else."""
        match node:
            case ast.Constant(value=int(value)) if not isinstance(value, bool):
                return value
            case ast.Name(id=name):
                return int(self.variable(Variable(name, 0, quoted=True)).text)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                found = _OPERATORS[type(op)](self.evaluated(left), self.evaluated(right))
                if abs(found) >= 2**63:
                    raise ValueError("too large")
                return found
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self.evaluated(operand)
        raise ValueError("not integer arithmetic")

    def grow(self, amount: int, line: int) -> None:
        """Counts what is filled in; a script that doubles its variables again and again is refused."""
        self.size += amount
        if self.size > _MOST:
            raise broken(
                self.script.name, line, f"the variables of this script hold more than {_MOST:,} characters"
            )

    def remark(self, line: int, text: str) -> None:
        said = f"{self.script.name}:{line}: {text}"
        if said not in self.script.remarks:
            self.script.remarks.append(said)


def _dollars(text: str) -> Iterator[Part]:
    """The parts of the inside of ``$((...))``."""
    for statement in statements(f'"{text}"' if '"' not in text and "\\" not in text else '""', "", depth=1):
        for word in statement.words:
            yield from word.parts


_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
