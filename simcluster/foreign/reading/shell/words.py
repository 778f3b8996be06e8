"""Shell text -> words: quotes, continuations, comments, arrays and substitutions, each with its line."""

from __future__ import annotations

import re

from simcluster.foreign.reading.shell.syntax import (
    ArithmeticExpansion,
    Assignment,
    Literal,
    Unexpanded,
    Variable,
    Word,
    WordPart,
    syntax_problem,
)

_ASSIGNED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PARAMETER = re.compile(r"([A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!-])(?:\[([^\]]*)\])?(?:(:?[-=+])(.*))?", re.S)
ENDS = " \t\n;&|<>()"
"""Unquoted characters behind a word."""

_DEEPEST = 40


class WordReader:
    """A place in a shell text, and the words that begin there; ScenarioError for what is never closed."""

    def __init__(self, text: str, name: str, line: int = 1, depth: int = 0) -> None:
        self.text = text
        self.name = name
        self.at = 0
        self.line = line
        self.depth = depth
        if depth > _DEEPEST:
            raise syntax_problem(name, line, f"substitutions nested more than {_DEEPEST} deep")

    def here(self) -> str:
        """The next character; nothing at the end."""
        return self.text[self.at : self.at + 1]

    def blanks(self) -> None:
        """Skips blanks, continued lines and comments."""
        while self.at < len(self.text):
            if self.here() in " \t\r":
                self.at += 1
            elif self.text.startswith("\\\n", self.at):
                self.at += 2
                self.line += 1
            elif self.here() == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            else:
                return

    def word(self) -> Word | Assignment:
        """One word; an assignment if it begins like one."""
        line = self.line
        assigned = _ASSIGNED.match(self.text, self.at)
        if assigned is None:
            parts, quoted = self.parts(ENDS)
            return Word(parts, line, quoted)
        self.at = assigned.end()
        name, append = assigned[1], bool(assigned[2])
        if self.here() == "(":
            return Assignment(name, append, self.array(), line)
        parts, quoted = self.parts(ENDS)
        return Assignment(name, append, Word(parts, line, quoted), line)

    def array(self) -> tuple[Word, ...]:
        """``( a b c )`` with line ends between its words."""
        opened, words = self.line, list[Word]()
        self.at += 1
        while True:
            self.blanks()
            here = self.here()
            if not here:
                raise syntax_problem(self.name, opened, "the list opened with '(' is never closed")
            if here == ")":
                self.at += 1
                return tuple(words)
            if here == "\n":
                self.line += 1
                self.at += 1
            elif here in ";&|<>(":
                self.at += 1
            else:
                word = self.word()
                words.append(word if isinstance(word, Word) else assignment_word(word))

    def parts(self, ends: str) -> tuple[tuple[WordPart, ...], bool]:
        """The parts up to an unquoted character of ``ends``, and whether any of it was quoted."""
        parts: list[WordPart] = []
        quoted = False
        while self.at < len(self.text) and (here := self.here()) not in ends:
            if here == "\\":
                follower = self.text[self.at + 1 : self.at + 2]
                if follower == "\n":
                    self.line += 1
                elif follower:
                    parts.append(Literal(follower, self.line))
                self.at += 2
            elif here == "'":
                quoted = True
                parts.append(self.single())
            elif here == '"':
                quoted = True
                parts += self.double()
            elif here in "$`":
                parts.append(self.dollar(quoted=False))
            else:
                end = self.at
                while end < len(self.text) and self.text[end] not in ends + "\\'\"$`":
                    end += 1
                parts.append(Literal(self.text[self.at : end], self.line))
                self.line += self.text.count("\n", self.at, end)
                self.at = end
        return tuple(parts), quoted

    def single(self) -> Literal:
        """Between single quotes: every character stands for itself."""
        line, end = self.line, self.text.find("'", self.at + 1)
        if end < 0:
            raise syntax_problem(self.name, line, "the quote ' opened here is never closed")
        text = self.text[self.at + 1 : end]
        self.at = end + 1
        self.line += text.count("\n")
        return Literal(text, line)

    def double(self) -> list[WordPart]:
        """Between double quotes: variables count, blanks do not split; one literal for each line."""
        opened = self.line
        self.at += 1
        parts = self.quoted('"')
        if not self.here():
            raise syntax_problem(self.name, opened, 'the quote " opened here is never closed')
        self.at += 1
        return parts or [Literal("", opened)]

    def quoted(self, end: str) -> list[WordPart]:
        """The parts up to the character ``end``, or to the end of the text."""
        parts, run = list[WordPart](), ""
        while True:
            here = self.here()
            if (not here or here in f"{end}$`\n\\") and run:
                parts.append(Literal(run, self.line))
                run = ""
            if not here or here == end:
                return parts
            if here in "$`":
                parts.append(self.dollar(quoted=True))
                continue
            self.at += 1
            if here == "\\":
                follower = self.here()
                self.at += 1
                if follower == "\n":
                    self.line += 1
                else:
                    run = follower if follower and follower in '$`"\\' else f"\\{follower}"
            elif here == "\n":
                parts.append(Literal("\n", self.line))
                self.line += 1
            else:
                run += here

    # -- what begins with a dollar ----------------------------------------------------------------------

    def dollar(self, *, quoted: bool) -> WordPart:
        """A variable, arithmetic, or what only a shell could tell."""
        line = self.line
        if self.here() == "`":
            return Unexpanded(f"`{self.closed('`', '`')}`", line)
        self.at += 1
        if self.text.startswith("((", self.at):
            start = self.at
            self.skip_arithmetic()
            return ArithmeticExpansion(self.text[start + 2 : self.at - 2], line)
        if self.here() == "[":
            return ArithmeticExpansion(self.closed("[", "]"), line)
        if self.here() == "(":
            return Unexpanded(f"$({self.closed('(', ')')})", line)
        if self.here() == "{":
            return self.parameter(self.closed("{", "}"), line, quoted)
        named = _NAME.match(self.text, self.at)
        if named:
            self.at = named.end()
            return Variable(named[0], line, quoted)
        if self.here() and self.here() in "0123456789@*#?$!-":
            self.at += 1
            return Variable(self.text[self.at - 1], line, quoted)
        return Literal("$", line)

    def parameter(self, text: str, line: int, quoted: bool) -> WordPart:
        """What stands in ``${...}``."""
        parameter = _PARAMETER.fullmatch(text)
        if parameter is None:
            return Unexpanded(f"${{{text}}}", line)
        default = None
        if parameter[3]:
            inner = WordReader(parameter[4], self.name, line, self.depth + 1)
            parts, was_quoted = inner.parts("")
            default = Word(parts, line, was_quoted)
        return Variable(parameter[1], line, quoted, parameter[2] or "", default, parameter[3] or "")

    def closed(self, opening: str, closing: str) -> str:
        """The text up to the matching bracket, quotes inside respected; leaves the place behind it."""
        line, start, level = self.line, self.at + 1, 1
        self.at += 1
        while level:
            here = self.here()
            if not here:
                raise syntax_problem(self.name, line, f"the '{opening}' opened here is never closed")
            if here == "\\":
                self.line += self.text[self.at : self.at + 2].count("\n")
                self.at += 2
                continue
            if here == "'" and opening == "(":
                self.single()
                continue
            if here == closing:
                level -= 1
            elif here == opening:
                level += 1
            self.line += here == "\n"
            self.at += 1
        return self.text[start : self.at - 1]

    def skip_arithmetic(self) -> None:
        """Goes behind the matching ``))``."""
        line, level = self.line, 0
        while True:
            here = self.here()
            if not here:
                raise syntax_problem(self.name, line, "the '((' opened here is never closed")
            level += (here == "(") - (here == ")")
            self.line += here == "\n"
            self.at += 1
            if not level:
                return


def assignment_word(assignment: Assignment) -> Word:
    """``NAME=value`` that stands where an argument does: ``--env NAME=value``."""
    sign = "+=" if assignment.append else "="
    head = Literal(f"{assignment.name}{sign}", assignment.line)
    if isinstance(assignment.value, tuple):
        return Word((head, Unexpanded("(...)", assignment.line)), assignment.line)
    return Word((head, *assignment.value.parts), assignment.line, assignment.value.quoted)
