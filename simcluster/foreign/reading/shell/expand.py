"""Statements -> words with their variables filled in, each with the lines that its characters come from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from simcluster.errors import Problem, ScenarioError, nearest
from simcluster.foreign.reading.shell.arithmetic import LONGEST, arithmetic_words, evaluate_arithmetic
from simcluster.foreign.reading.shell.conditions import (
    Operand,
    Truth,
    disjunction,
    matches_case,
    negated,
    test_holds,
)
from simcluster.foreign.reading.shell.field import (
    Command,
    Field,
    Here,
    Script,
    TextPiece,
    flags_in,
    merge_values,
)
from simcluster.foreign.reading.shell.flow import ControlFlow
from simcluster.foreign.reading.shell.reader import read_statements
from simcluster.foreign.reading.shell.syntax import (
    ArithmeticExpansion,
    Assignment,
    HereDocument,
    Keyword,
    Literal,
    Statement,
    Unexpanded,
    Variable,
    Word,
    WordPart,
    syntax_problem,
)
from simcluster.foreign.reading.shell.words import WordReader

_MOST = 2**20
"""Characters that all words of a script may have together once variables are filled in."""

_ARGUMENTS = {"@", "*"}
_TESTS = {"[": "]", "[[": "]]", "test": ""}
_RESULTS: Mapping[str, Truth] = {"true": True, ":": True, "false": False}
_SETTING = ("let", "read", "readarray", "mapfile", "getopts", "unset")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_USED = re.compile(r"\$\{?[#!]?([A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*])")
_WRITTEN = re.compile(r"\b([A-Za-z_][A-Za-z0-9_]*)\+?=")
_COUNTED = re.compile(r"\(\((.*?)\)\)", re.S)
_SHELLS = ("bash", "sh", "zsh")
_DEEPEST = 100
_MOST_ASKED = 10
"""Names that are told of one condition."""


def read_script(text: str, name: str, given: Mapping[str, str]) -> Script:
    """The commands of a script; ``given`` are variables that win over what the script says.

    Raises ScenarioError for text that is no shell script, with the line, and for variables it does not have.
    """
    _check_given(given, text)
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    expander = _Expander(name, given)
    for statement in read_statements(text, name):
        expander.take(statement)
    return expander.script


class _Expander:
    def __init__(self, name: str, given: Mapping[str, str]) -> None:
        self.given = given
        self.script = Script(name)
        self.flow = ControlFlow()
        self.branched: dict[str, str] = {}
        self.cases: list[Operand] = []
        self.outside: list[dict[str, list[Field]]] = []
        self.size = 0

    def take(self, statement: Statement | Keyword) -> None:
        """Follows a statement: its assignments count from here on, its words become a command."""
        if isinstance(statement, Keyword):
            self.keyword(statement)
            return
        runs = self.flow.runs(statement.joined)
        if runs is False:
            self.script.skipped.update(assigned.name for assigned in statement.assignments)
            return
        condition = "" if runs else self.condition_text(self.flow.on(statement.joined), statement.line)
        for assignment in statement.assignments:
            if statement.words:
                continue  # an environment variable of that command alone
            self.assign(assignment, condition)
        for document in statement.documents:
            self.document(document, condition)
        if statement.words:
            self.command(statement, condition)
        result, asked = self.result(statement)
        self.flow.ended(negated(result) if statement.negated else result, statement.joined, asked)

    def keyword(self, keyword: Keyword) -> None:
        """Opens and closes blocks; a case compares its word with the patterns of every branch."""
        if len(self.flow.blocks) > _DEEPEST:
            raise syntax_problem(self.script.name, keyword.line, f"blocks nested more than {_DEEPEST} deep")
        match keyword.name:
            case "case":
                self.cases.append(self.operand(keyword.words[0]) if keyword.words else Operand(""))
            case "esac" if self.cases:
                self.cases.pop()
            case "(":
                self.outside.append(dict(self.script.values))
            case ")" if self.outside:
                self.script.values.clear()
                self.script.values.update(self.outside.pop())
        if keyword.name != "pattern":
            self.flow.keyword(keyword.name, keyword.joined)
        elif self.cases:
            matched: Truth = False
            asked = [*self.cases[-1].unset, *self.cases[-1].open]
            for word in keyword.words:
                pattern = self.operand(word)
                matched = disjunction(matched, matches_case(self.cases[-1], pattern))
                asked += [*pattern.unset, *pattern.open]
            self.flow.branch(matched, tuple(asked[:_MOST_ASKED]))

    def command(self, statement: Statement, condition: str) -> None:
        fields = tuple(self.fields(self.inside(statement.words)))
        self.script.commands.append(Command(fields, statement.line, not condition))
        self.changed(fields, statement.line, condition)
        if fields and fields[0].text in ("source", ".") and len(fields) > 1:
            self.script.sourced = fields[1].text
            self.remark(
                statement.line, f"'{fields[1].text}' is not read with it; give what it sets with --var"
            )

    def changed(self, command: Sequence[Field], line: int, condition: str) -> None:
        """Commands that set variables: to what only a run would tell, or to nothing."""
        name = command[0].text if command else ""
        if name not in _SETTING:
            return
        for field in command[1:]:
            variable = _NAME.match(field.text)
            if variable is None or variable[0] in self.given:
                continue
            if name == "unset" and not condition:
                self.script.values.pop(variable[0], None)
                self.branched.pop(variable[0], None)
            elif name != "unset" or variable[0] in self.script.values:
                self.branched[variable[0]] = condition or f"set on line {line} by '{name}'"

    def inside(self, words: Sequence[Word]) -> Iterator[Word]:
        """The words of a command; what ``bash -c`` is told in single quotes is read by that shell."""
        before = ""
        shell = False
        for word in words:
            text = word.literal
            if shell and before.startswith("-") and before.endswith("c") and word.quoted and "$" in text:
                yield Word(
                    tuple(WordReader(text, self.script.name, word.line, 1).quoted("\0")), word.line, True
                )
            else:
                yield word
            shell = shell or text.rpartition("/")[2] in _SHELLS
            before = text

    def result(self, statement: Statement) -> tuple[Truth, tuple[str, ...]]:
        """Whether a command succeeds, as far as the text tells, and the names that it depends on."""
        words = statement.words
        if not words:
            return True, ()
        name = words[0].literal
        if name == "((" and len(words) == 2 and isinstance(words[1].parts[0], ArithmeticExpansion):
            value = self.computed(words[1].parts[0].text, words[1].line)
            return (None if value is None else bool(value)), ()
        if name not in _TESTS:
            return _RESULTS.get(name), ()
        operands = [self.operand(word) for word in words[1:]]
        if operands and operands[-1].text == _TESTS[name]:
            operands.pop()
        asked = [missing for operand in operands for missing in (*operand.unset, *operand.open)]
        holds = test_holds(operands, patterns=name == "[[")
        if holds is not None:
            self.assumed(operands, statement.line)
        return holds, tuple(asked[:_MOST_ASKED])

    def assumed(self, operands: Iterable[Operand], line: int) -> None:
        for name in dict.fromkeys(unset for operand in operands for unset in operand.unset):
            self.remark(line, f"{name} is not set in this file, and taken as empty; --var {name}=... sets it")

    def operand(self, word: Word) -> Operand:
        """A word of a test; variables that nothing sets are empty in it."""
        parts = [part for part in word.parts if not self.is_unset(part)]
        unset = [part.name for part in word.parts if isinstance(part, Variable) and self.is_unset(part)]
        field = self.joined(replace(word, parts=tuple(parts)))
        open_ = [*field.missing, *(["a condition"] if field.condition else [])]
        return Operand(field.text, tuple(unset), tuple(variable.strip("${}") for variable in open_))

    def is_unset(self, part: WordPart) -> bool:
        """Whether a part is a variable that neither the script nor anybody else sets."""
        if not isinstance(part, Variable) or part.default is not None or not _nameable(part.name):
            return False
        name = part.name
        return name not in self.given and name not in self.branched and name not in self.script.values

    def condition_text(self, on: tuple[str, ...], line: int) -> str:
        """What is said of a value that is set under an open condition."""
        names = [name for name in on if _nameable(name)]
        given = " or ".join(f"--var {name}=..." for name in names[:2])
        return f"set on line {line} under a condition" + (f" that {given} decides" if given else "")

    def assign(self, assignment: Assignment, condition: str) -> None:
        """Sets a variable; one set under an open condition keeps both values if they are flags."""
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
        if not condition:
            values[name] = fields
            self.branched.pop(name, None)
        elif [field.text for field in before] != [field.text for field in fields]:
            if flags_in(before, fields) and name not in self.branched:
                values[name] = merge_values(
                    before, fields, condition, whole=isinstance(assignment.value, Word)
                )
            else:
                self.branched[name] = condition

    def document(self, document: HereDocument, condition: str) -> None:
        """Remembers a here-document under the name of its file; it is read when somebody asks for it."""
        if document.target is None:
            return
        name = self.joined(document.target).text
        text, line = document.text, document.line
        if not document.quoted:
            parts = WordReader(text, self.script.name, line).quoted("\0")
            text = self.joined(Word(tuple(parts), line, quoted=True)).text
        self.script.documents[name] = Here(text, line, condition)

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
        pieces: list[TextPiece] = []
        missing: list[str] = []
        for part in word.parts:
            field = self.part(part)
            pieces += field.pieces
            missing += field.missing
        self.grow(sum(len(piece.text) for piece in pieces), word.line)
        return Field(tuple(pieces) or (TextPiece("", word.line),), tuple(dict.fromkeys(missing)))

    def part(self, part: WordPart) -> Field:
        match part:
            case Literal(text, line):
                return Field((TextPiece(text, line),))
            case Unexpanded(text, line):
                return Field((TextPiece(text, line),), (text,))
            case ArithmeticExpansion(text, line):
                number = self.computed(text, line)
                shown = f"$(({text}))"
                missing = (shown,) if number is None else ()
                return Field((TextPiece(shown if number is None else str(number), line),), missing)
        return self.variable(part)

    def variable(self, part: Variable) -> Field:
        """The value of a variable, or what stands for it; as it is written where it is not known."""
        known, line = self.value(part), part.line
        if part.operator in (":+", "+") and part.default is not None and part.name not in self.branched:
            filled = known is not None and (bool(known.text) or part.operator == "+")
            return self.joined(part.default) if filled else Field((TextPiece("", line),))
        if known is not None and (known.text or not part.operator.startswith(":")):
            return known
        if part.default is not None and part.name not in self.branched:
            field = self.joined(part.default)
            if part.operator in (":=", "=") and _nameable(part.name):
                self.script.values[part.name] = [field]
            return field
        if part.name in _ARGUMENTS:
            return self.arguments(part)
        index = f"[{part.index}]" if part.index else ""
        shown = f"${{{part.name}{index}}}"
        if part.name in self.branched:
            self.script.reasons[shown] = self.branched[part.name]
        return Field((TextPiece(shown, line),), (shown,))

    def value(self, part: Variable) -> Field | None:
        """What is given or set for a variable; None if nothing is known of it."""
        name, line = part.name, part.line
        if name in self.given:
            return Field((TextPiece(self.given[name], line),))
        if not self.known(name):
            return None
        items = self.script.values[name]
        if part.index.isdigit() and len(part.index) < 6:
            items = items[int(part.index) : int(part.index) + 1]
        elif part.index not in ("", "@", "*"):
            items = []
        elif not part.index:
            items = items[:1]
        if not items:
            return None
        pieces = [piece for item in items for piece in (TextPiece(" ", line), *item.pieces)][1:]
        return Field(tuple(pieces), tuple(m for item in items for m in item.missing))

    def arguments(self, part: Variable) -> Field:
        """What the script is called with: nothing that its text could tell."""
        self.remark(part.line, f"what the script is called with (${part.name}) is not known")
        return Field((TextPiece("", part.line),))

    def known(self, name: str) -> bool:
        """Whether the script says what a variable is, without a condition."""
        return name in self.script.values and name not in self.branched

    def computed(self, text: str, line: int) -> int | None:
        """The value of integer arithmetic, or None where the text does not tell."""
        if len(text) > LONGEST:
            return None
        filled = self.joined(Word(tuple(self.inside_arithmetic(text, line)), line))
        if filled.missing or filled.condition:
            return None
        return evaluate_arithmetic(
            arithmetic_words(filled.text), lambda name: self.variable(Variable(name, 0, True)).text
        )

    def inside_arithmetic(self, text: str, line: int) -> Iterator[WordPart]:
        """The parts of the inside of ``$((...))``."""
        if '"' not in text and "\\" not in text:
            yield from WordReader(text, self.script.name, line, depth=1).quoted("\0")

    def grow(self, amount: int, line: int) -> None:
        """Counts what is filled in; a script that doubles its variables again and again is refused."""
        self.size += amount
        if self.size > _MOST:
            raise syntax_problem(
                self.script.name, line, f"the variables of this script hold more than {_MOST:,} characters"
            )

    def remark(self, line: int, text: str) -> None:
        """Something to know of the script, once."""
        said = f"{self.script.name}:{line}: {text}"
        if said not in self.script.remarks:
            self.script.remarks.append(said)


def _check_given(given: Mapping[str, str], text: str) -> None:
    """ScenarioError for names that the script neither sets nor uses: they would be ignored."""
    used = {*_USED.findall(text), *_WRITTEN.findall(text)}
    used |= {name for inside in _COUNTED.findall(text) for name in _NAME.findall(inside)}
    problems = [
        Problem(f"the script has no variable '{name}'", where="--var", hint=nearest(name, used))
        for name in given
        if name not in used
    ]
    if problems:
        raise ScenarioError(*problems)


def _nameable(name: str) -> bool:
    """Whether --var can say it: a name, or the number of an argument."""
    return name.isidentifier() or name.isdecimal()
