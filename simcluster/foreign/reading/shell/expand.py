"""Statements -> words with their variables filled in, each with the lines that its characters come from."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from simcluster.errors import Problem, ScenarioError, nearest
from simcluster.foreign.reading.shell.batch import scheduled_variables
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
from simcluster.foreign.reading.shell.functions import split_functions
from simcluster.foreign.reading.shell.reader import read_on_one_line, read_statements
from simcluster.foreign.reading.shell.syntax import (
    ArithmeticExpansion,
    Assignment,
    HereDocument,
    Keyword,
    Statement,
    Variable,
    Word,
    syntax_problem,
)
from simcluster.foreign.reading.shell.variables import Variables, nameable
from simcluster.foreign.reading.shell.words import WordReader

_TESTS = {"[": "]", "[[": "]]", "test": ""}
_RESULTS: Mapping[str, Truth] = {"true": True, ":": True, "false": False}
_SETTING = ("let", "read", "readarray", "mapfile", "getopts", "unset")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_USED = re.compile(r"\$\{?[#!]?([A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*])")
_WRITTEN = re.compile(r"\b([A-Za-z_][A-Za-z0-9_]*)\+?=")
_COUNTED = re.compile(r"\(\((.*?)\)\)", re.S)
_SHELLS = ("bash", "sh", "zsh")
_STARTING = (*_SHELLS, "sbatch", "qsub", "bsub", "srun", "ssh")
"""Programs that run a script which is their argument."""
_ENTRY = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[[^\]]*\]=.*)", re.S)
_ELSEWHERE = re.compile(r"^(?:\$\(.*\)|\$\{[^}]*\}|`[^`]*`)/")
"""A folder that only a run would tell (a variable), in front of a file name."""
_BLANK_BEHIND = re.compile(r"\\[ \t]+\n(?=[ \t]*[-$\"'])")
"""A continuation mark with blanks behind it, which does not continue the line."""
_DEEPEST = 100
_MOST_TAKEN = 100_000
"""Commands and keywords of a script."""
_MOST_NESTED = 20
"""Functions, scripts in scripts and files that are read, one inside the other."""
_MOST_ASKED = 10
"""Names that are told of one condition."""


def read_script(
    text: str,
    name: str,
    given: Mapping[str, str],
    referenced: Callable[[str], str | None] = lambda path: None,
) -> Script:
    """The commands of a script; ``given`` are variables that win over what the script says.

    ``referenced`` gives the text of a file that it reads besides (``source``), None where there is none.
    Raises ScenarioError for text that is no shell script, with the line, and for variables it does not have.
    """
    expander = _Expander(name, given, referenced)
    for variable, (value, line) in scheduled_variables(text).items():
        expander.script.values[variable] = [Field((TextPiece(value, line),))]
    plain = _unix(text)
    for blank in _BLANK_BEHIND.finditer(plain):
        expander.remark(
            plain.count("\n", 0, blank.start()) + 1, "blanks behind '\\': read as a line that goes on below"
        )
    expander.follow(read_statements(_BLANK_BEHIND.sub("\\\n", plain), name))
    _check_given(given, "\n".join([text, *expander.read]))
    return expander.script


def _unix(text: str) -> str:
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


class _Expander(Variables):
    def __init__(self, name: str, given: Mapping[str, str], referenced: Callable[[str], str | None]) -> None:
        super().__init__(name, given)
        self.referenced = referenced
        self.flow = ControlFlow()
        self.cases: list[Operand] = []
        self.outside: list[dict[str, list[Field]]] = []
        self.functions: dict[str, list[Statement | Keyword]] = {}
        self.scripts: dict[str, HereDocument] = {}
        self.read: list[str] = []
        self.depth = 0
        self.taken = 0

    def follow(self, statements: Iterable[Statement | Keyword]) -> None:
        """Follows all statements of a script; its functions where they are called."""
        rest, functions = split_functions([*statements])
        self.functions |= functions
        for statement in rest:
            self.take(statement)

    def inner(self, statements: Iterable[Statement | Keyword], condition: str, on: tuple[str, ...]) -> None:
        """Follows statements that run as part of a command: those of a function, or of another script."""
        if self.depth >= _MOST_NESTED:
            return
        self.depth += 1
        with self.flow.inside(sure=not condition, on=on):
            self.follow(statements)
        self.depth -= 1

    def take(self, statement: Statement | Keyword) -> None:
        """Follows a statement: its assignments count from here on, its words become a command."""
        self.taken += 1
        if self.taken > _MOST_TAKEN:
            message = f"this script has more than {_MOST_TAKEN:,} commands, functions counted at every call"
            raise syntax_problem(self.script.name, statement.line, message)
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
            self.flow.keyword(keyword.name, keyword.joined, surely=bool(keyword.words))
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
        name = fields[0].text if fields else ""
        if name in self.functions:
            self.call(name, fields[1:], statement, condition)
            return
        if (entry := _ENTRY.fullmatch(name)) and entry[1] not in self.given and not condition:
            self.assign_keys(entry[1], [Field((TextPiece(entry[2], statement.line),), fields[0].missing)])
            return
        self.script.commands.append(Command(fields, statement.line, not condition))
        self.changed(fields, statement.line, condition)
        if name in ("source", ".") and len(fields) > 1:
            self.source(fields[1].text, statement, condition)
        elif name == "set" and not condition:
            self.arguments_set(fields)
        elif name == "shift" and not condition and self.positional is not None:
            count = fields[1].text if len(fields) > 1 else "1"
            self.positional = self.positional[int(count) if count.isdecimal() else 0 :]
        self.started(name, fields, statement, condition)

    def call(self, name: str, fields: Sequence[Field], statement: Statement, condition: str) -> None:
        """Follows a function with the arguments that it is called with."""
        outside, self.positional = self.positional, list(fields)
        self.inner(self.functions[name], condition, self.flow.on(statement.joined))
        self.positional = outside

    def arguments_set(self, fields: Sequence[Field]) -> None:
        """``set -- a b c``: the arguments from here on."""
        texts = [field.text for field in fields]
        if "--" in texts:
            self.positional = list(fields[texts.index("--") + 1 :])

    def source(self, path: str, statement: Statement, condition: str) -> None:
        """Reads another file as if it stood here; what it says has the line of this command."""
        plain = _ELSEWHERE.sub("", path)
        text = None if condition or self.depth >= _MOST_NESTED else self.referenced(plain)
        if text is None:
            self.script.sourced = path
            self.remark(statement.line, f"'{path}' is not found; give what it sets with --var")
            return
        self.remark(statement.line, f"'{plain}' is read too")
        self.read.append(text)
        self.inner(read_on_one_line(_unix(text), self.script.name, statement.line), "", ())

    def started(self, name: str, fields: Sequence[Field], statement: Statement, condition: str) -> None:
        """Follows a script that a command is given, in a here-document or as a file written before."""
        handed = [document for document in statement.documents if document.target is None]
        program = name.rpartition("/")[2]
        if program not in _STARTING and name.removeprefix("./") not in self.scripts:
            return
        if program == "sbatch":
            self.script.submitted += [field for field in fields[1:] if field.text.startswith("-")]
        written = [
            self.scripts[text] for field in fields if (text := field.text.removeprefix("./")) in self.scripts
        ]
        for document in [*handed, *written]:
            text = document.text if document.quoted else _unescaped(document.text)
            inner = read_statements(text, self.script.name, document.line, self.depth)
            outside, self.positional = self.positional, None
            self.inner(inner, condition, self.flow.on(statement.joined))
            self.positional = outside

    def changed(self, command: Sequence[Field], line: int, condition: str) -> None:
        """Commands that set variables: to what only a run would tell, or to nothing."""
        name = command[0].text if command else ""
        if name not in _SETTING:
            return
        for field in command[1:]:
            variable = _NAME.match(field.text)
            if variable is None or variable[0] in self.given:
                continue
            number = None
            if name == "let" and not condition and field.text[variable.end() : variable.end() + 1] == "=":
                number = self.computed(field.text[variable.end() + 1 :], line)
            if number is not None:
                self.script.values[variable[0]] = [Field((TextPiece(str(number), line),))]
            elif name == "unset" and not condition:
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

    def condition_text(self, on: tuple[str, ...], line: int) -> str:
        """What is said of a value that is set under an open condition."""
        names = [name for name in on if nameable(name)]
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
        if isinstance(assignment.value, tuple) and not condition and self.assign_keys(name, fields):
            return
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
        self.scripts[name.removeprefix("./")] = document
        text, line = document.text, document.line
        if not document.quoted:
            parts = WordReader(text, self.script.name, line).quoted("\0")
            text = self.joined(Word(tuple(parts), line, quoted=True)).text
        self.script.documents[name] = Here(text, line, condition)


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


def _unescaped(text: str) -> str:
    """The text of a here-document whose variables count: those of the script inside have a backslash."""
    return re.sub(r"\\([$`\\])", r"\1", text)
