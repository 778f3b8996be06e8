"""Shell text -> statements. Quotes, continuations, comments, arrays, here-documents and blocks are understood
as far as finding words needs it; nothing is run and nothing is looked up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

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

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ASSIGNED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=")
_PARAMETER = re.compile(r"([A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!-])(?:\[([^\]]*)\])?(?:(:?[-=])(.*))?", re.S)
_OPENING = {"if", "for", "while", "until", "case", "select"}
_CLOSING = {"fi", "done", "esac"}
_BETWEEN = {"then", "else", "elif", "do", "in", "{", "}", "!", "time", "exec", "nohup"}
_DECLARING = {"export", "declare", "local", "readonly", "typeset"}
_ENDS = " \t\n;&|<>()"
_DEEPEST = 40


def statements(text: str, name: str, line: int = 1, depth: int = 0) -> Iterator[Statement]:
    """The simple commands of a script in order; ScenarioError, with the line, for what is never closed."""
    return _Reader(text, name, line, depth).statements()


class _Reader:
    def __init__(self, text: str, name: str, line: int = 1, depth: int = 0) -> None:
        self.text = text
        self.name = name
        self.at = 0
        self.line = line
        self.depth = depth
        self.blocks = 0
        self.waiting: list[tuple[str, bool]] = []
        if depth > _DEEPEST:
            raise broken(name, line, f"substitutions nested more than {_DEEPEST} deep")

    def statements(self) -> Iterator[Statement]:
        """Statements up to the end of the text."""
        after_condition = False
        while self.at < len(self.text):
            words = self.simple()
            separator = self.separator()
            sure = self.blocks == 0 and not after_condition
            statement = self.statement(words, sure)
            if statement is not None:
                yield statement
            after_condition = separator in ("&&", "||")

    def simple(self) -> list[Word | Assignment]:
        """The words up to the next separator."""
        words: list[Word | Assignment] = []
        while True:
            self.blanks()
            if self.at >= len(self.text) or self.here() in "\n;&|()":
                return words
            if self.here() in "<>":
                self.redirection()
                continue
            word = self.word()
            if isinstance(word, Word) and word.literal.isdigit() and self.here() in ("<", ">"):
                continue  # the number of a redirected stream
            words.append(word)

    def separator(self) -> str:
        """Consumes what ends a simple command."""
        for mark in ("&&", "||", ";;", "((", "\n", ";", "&", "|", "(", ")"):
            if self.text.startswith(mark, self.at):
                self.at += len(mark)
                if mark == "\n":
                    self.line += 1
                    self.here_documents()
                if mark == "((":
                    self.at -= 2
                    self.skip_arithmetic()
                return mark
        return ""

    def statement(self, words: list[Word | Assignment], sure: bool) -> Statement | None:
        """Keywords count blocks; what remains is a command."""
        start = 0
        while start < len(words):
            first = words[start]
            word = first.literal if isinstance(first, Word) and not first.quoted else ""
            if word in _OPENING:
                self.blocks += 1
                if word in ("for", "case", "select"):
                    return self.loop(words[start + 1 :]) if word != "case" else None
            elif word in _CLOSING:
                self.blocks = max(0, self.blocks - 1)
            elif word not in _BETWEEN:
                break
            sure = sure and self.blocks == 0
            start += 1
        words = words[start:]
        if not words:
            return None
        line = words[0].line
        declared = isinstance(words[0], Word) and words[0].literal in _DECLARING
        assignments: list[Assignment] = []
        rest: list[Word] = []
        for word_ in words[1:] if declared else words:
            if isinstance(word_, Assignment) and (declared or not rest):
                assignments.append(word_)
            elif isinstance(word_, Assignment):
                rest.append(_as_word(word_))
            elif not declared:
                rest.append(word_)
        return Statement(tuple(assignments), tuple(rest), line, sure)

    def loop(self, words: list[Word | Assignment]) -> Statement | None:
        """``for NAME in ...`` sets NAME to what only a run would tell."""
        if not words or not isinstance(words[0], Word) or not _NAME.fullmatch(words[0].literal):
            return None
        line = words[0].line
        value = Word((Opaque(f"${words[0].literal}", line),), line)
        return Statement((Assignment(words[0].literal, False, value, line),), (), line, sure=False)

    # -- words ------------------------------------------------------------------------------------------

    def here(self) -> str:
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
            parts, quoted = self.parts(_ENDS)
            return Word(parts, line, quoted)
        self.at = assigned.end()
        name, append = assigned[1], bool(assigned[2])
        if self.here() == "(":
            return Assignment(name, append, self.array(), line)
        parts, quoted = self.parts(_ENDS)
        return Assignment(name, append, Word(parts, line, quoted), line)

    def array(self) -> tuple[Word, ...]:
        """``( a b c )`` with line ends between its words."""
        opened, words = self.line, list[Word]()
        self.at += 1
        while True:
            self.blanks()
            here = self.here()
            if not here:
                raise broken(self.name, opened, "the list opened with '(' is never closed")
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
                words.append(word if isinstance(word, Word) else _as_word(word))

    def parts(self, ends: str) -> tuple[tuple[Part, ...], bool]:
        """The parts up to an unquoted character of ``ends``, and whether any of it was quoted."""
        found: list[Part] = []
        quoted = False
        while self.at < len(self.text) and (here := self.here()) not in ends:
            if here == "\\":
                follower = self.text[self.at + 1 : self.at + 2]
                if follower == "\n":
                    self.line += 1
                elif follower:
                    found.append(Literal(follower, self.line))
                self.at += 2
            elif here == "'":
                quoted = True
                found.append(self.single())
            elif here == '"':
                quoted = True
                found += self.double()
            elif here in "$`":
                found.append(self.dollar(quoted=False))
            else:
                end = self.at
                while end < len(self.text) and self.text[end] not in ends + "\\'\"$`":
                    end += 1
                found.append(Literal(self.text[self.at : end], self.line))
                self.line += self.text.count("\n", self.at, end)
                self.at = end
        return tuple(found), quoted

    def single(self) -> Literal:
        line, end = self.line, self.text.find("'", self.at + 1)
        if end < 0:
            raise broken(self.name, line, "the quote ' opened here is never closed")
        text = self.text[self.at + 1 : end]
        self.at = end + 1
        self.line += text.count("\n")
        return Literal(text, line)

    def double(self) -> list[Part]:
        """Between double quotes: variables count, blanks do not split; one literal for each line."""
        opened, found, run = self.line, list[Part](), ""
        self.at += 1
        while True:
            here = self.here()
            if not here:
                raise broken(self.name, opened, 'the quote " opened here is never closed')
            if here in '"$`\n\\' and run:
                found.append(Literal(run, self.line))
                run = ""
            if here == '"':
                self.at += 1
                return found or [Literal("", opened)]
            if here in "$`":
                found.append(self.dollar(quoted=True))
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
                found.append(Literal("\n", self.line))
                self.line += 1
            else:
                run += here

    # -- what begins with a dollar ----------------------------------------------------------------------

    def dollar(self, *, quoted: bool) -> Part:
        """A variable, arithmetic, or what only a shell could tell."""
        line = self.line
        if self.here() == "`":
            return Opaque(f"`{self.closed('`', '`')}`", line)
        self.at += 1
        if self.text.startswith("((", self.at):
            start = self.at
            self.skip_arithmetic()
            return Sum(self.text[start + 2 : self.at - 2], line)
        if self.here() == "(":
            return Opaque(f"$({self.closed('(', ')')})", line)
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

    def parameter(self, text: str, line: int, quoted: bool) -> Part:
        """What stands in ``${...}``."""
        found = _PARAMETER.fullmatch(text)
        if found is None:
            return Opaque(f"${{{text}}}", line)
        default = None
        if found[3]:
            inner = _Reader(found[4], self.name, line, self.depth + 1)
            parts, was_quoted = inner.parts("")
            default = Word(parts, line, was_quoted)
        return Variable(found[1], line, quoted, found[2] or "", default)

    def closed(self, opening: str, closing: str) -> str:
        """The text up to the matching bracket, quotes inside respected; leaves the place behind it."""
        line, start, level = self.line, self.at + 1, 1
        self.at += 1
        while level:
            here = self.here()
            if not here:
                raise broken(self.name, line, f"the '{opening}' opened here is never closed")
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
                raise broken(self.name, line, "the '((' opened here is never closed")
            level += (here == "(") - (here == ")")
            self.line += here == "\n"
            self.at += 1
            if not level:
                return

    # -- redirections -----------------------------------------------------------------------------------

    def redirection(self) -> None:
        """Skips ``> file`` and its kin; the text of a here-document is skipped at the end of the line."""
        start = self.at
        while self.here() and self.here() in "<>&|":
            self.at += 1
        operator = self.text[start : self.at]
        if operator == "<<" and self.here() == "-":
            self.at += 1
            operator = "<<-"
        self.blanks()
        if not self.here() or self.here() in _ENDS:
            return
        parts, _ = self.parts(_ENDS)
        if operator in ("<<", "<<-"):
            mark = "".join(part.text for part in parts if isinstance(part, Literal))
            self.waiting.append((mark, operator == "<<-"))

    def here_documents(self) -> None:
        """Goes behind the texts that the line before announced."""
        for mark, stripped in self.waiting:
            while self.at < len(self.text):
                end = self.text.find("\n", self.at)
                end = len(self.text) if end < 0 else end
                row = self.text[self.at : end].rstrip("\r")
                self.at = min(end + 1, len(self.text))
                self.line += 1
                if (row.lstrip("\t") if stripped else row) == mark:
                    break
        self.waiting.clear()


def _as_word(assignment: Assignment) -> Word:
    """``NAME=value`` that stands where an argument does: ``--env NAME=value``."""
    sign = "+=" if assignment.append else "="
    head = Literal(f"{assignment.name}{sign}", assignment.line)
    if isinstance(assignment.value, tuple):
        return Word((head, Opaque("(...)", assignment.line)), assignment.line)
    return Word((head, *assignment.value.parts), assignment.line, assignment.value.quoted)
