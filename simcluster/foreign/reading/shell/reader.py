"""Shell text -> statements and the keywords between them; nothing is run and nothing is looked up."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from simcluster.foreign.reading.shell.syntax import (
    ArithmeticExpansion,
    Assignment,
    HereDocument,
    Keyword,
    Literal,
    Statement,
    Unexpanded,
    Word,
)
from simcluster.foreign.reading.shell.words import ENDS, WordReader, assignment_word

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SET = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*([-+*/%]?)=(?!=)([^,=]*)", re.S)
_COUNTED = re.compile(r"\s*(?:([A-Za-z_][A-Za-z0-9_]*)\s*(\+\+|--)|(\+\+|--)\s*([A-Za-z_][A-Za-z0-9_]*))\s*")
_CHANGED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\s*(?:[-+*/%&|^]|<<|>>)?=(?!=)|(?:\+\+|--)")
_LOOPS = {"for", "while", "until", "select"}
_KEYWORDS = {"if", "then", "elif", "else", "fi", "done", "case", "esac", "{", "}", *_LOOPS}
_SKIPPED = {"do", "time", "exec", "nohup", "in"}
_DECLARING = {"export", "declare", "local", "readonly", "typeset"}
_JOINING = ("&&", "||", "|")
_ARITHMETIC = "(("


def read_statements(text: str, name: str, line: int = 1, depth: int = 0) -> Iterator[Statement | Keyword]:
    """The commands and keywords of a script in order; ScenarioError, with the line, for what stays open."""
    return _Reader(text, name, line, depth).statements()


def read_on_one_line(text: str, name: str, line: int) -> Iterator[Statement | Keyword]:
    """The commands and keywords of another file, all on the line of the one that reads it."""
    return _ReaderOnOneLine(text, name, line).statements()


class _Reader(WordReader):
    def __init__(self, text: str, name: str, line: int = 1, depth: int = 0) -> None:
        super().__init__(text, name, line, depth)
        self.cases = 0
        self.in_pattern = False
        self.loop_word = ""
        self.target: Word | None = None
        self.waiting: list[tuple[Word, bool]] = []
        self.documents: list[HereDocument] = []

    def statements(self) -> Iterator[Statement | Keyword]:
        """Statements and keywords up to the end of the text."""
        joined = ""
        while self.at < len(self.text):
            if self.in_pattern:
                self.in_pattern = False
                if (pattern := self.pattern()) is not None:
                    yield pattern
                    continue
            line = self.line
            words = self.simple()
            separator = self.separator()
            statements = [*self.understood(words, joined)]
            if separator == _ARITHMETIC:
                statements.append(self.arithmetic(line, statements, joined))
            yield from statements
            if separator in ("(", ")"):
                yield Keyword(separator, line, joined)
            if separator == ";;":
                self.in_pattern = self.cases > 0
            if separator in _JOINING:
                joined = separator
            elif statements or separator not in ("\n", _ARITHMETIC):
                joined = ""

    def simple(self) -> list[Word | Assignment]:
        """The words up to the next separator; between ``[[`` and ``]]`` signs are words."""
        words: list[Word | Assignment] = []
        self.target = None
        testing = False
        while True:
            self.blanks()
            here = self.here()
            if self.at >= len(self.text) or (here in "\n;&|()" and not (testing and here in "&|()")):
                return words
            if testing and here in "&|()<>":
                words.append(self.sign())
                continue
            if here in "<>":
                self.redirection()
                continue
            word = self.word()
            if isinstance(word, Word) and word.literal.isdigit() and self.here() in ("<", ">"):
                continue  # the number of a redirected stream
            if isinstance(word, Word) and not word.quoted and word.literal in ("[[", "]]"):
                testing = word.literal == "[["
            words.append(word)
            if _opens_patterns(words):
                self.in_pattern = True
                return words
            if len(words) == 3 and [w.literal for w in words if isinstance(w, Word)][::2] == [
                "function",
                "{",
            ]:
                return words

    def sign(self) -> Word:
        """``&&``, ``||``, a bracket or a comparison inside ``[[ ]]``."""
        text = self.here()
        self.at += 1
        if text in "&|" and self.here() == text:
            self.at += 1
            text *= 2
        return Word((Literal(text, self.line),), self.line)

    def separator(self) -> str:
        """Consumes what ends a simple command."""
        if self.in_pattern:
            return ""
        for mark in ("&&", "||", ";;", _ARITHMETIC, "\n", ";", "&", "|", "(", ")"):
            if self.text.startswith(mark, self.at):
                if mark == _ARITHMETIC:
                    return mark
                self.at += len(mark)
                if mark == "\n":
                    self.line += 1
                    self.here_documents()
                return mark
        return ""

    def arithmetic(self, line: int, before: Sequence[Statement | Keyword], joined: str) -> Statement:
        """``((NAME = sum))`` and its kin set a variable, any other ``((sum))`` is a condition."""
        start = self.at
        self.skip_arithmetic()
        text = self.text[start + 2 : self.at - 2]
        joined = "" if before else joined
        set_, counted = _SET.fullmatch(text), _COUNTED.fullmatch(text)
        if set_ is not None or counted is not None:
            name, value = _changed(set_, counted)
            assignment = Assignment(name, False, Word((ArithmeticExpansion(value, line),), line), line)
            return Statement((assignment,), (), line, joined)
        if _CHANGED.search(text):
            names = [Word((Literal(name, line),), line) for name in _NAME.findall(text)]
            return Statement((), (Word((Literal("let", line),), line), *names), line, joined)
        words = (Word((Literal(_ARITHMETIC, line),), line), Word((ArithmeticExpansion(text, line),), line))
        return Statement((), words, line, joined)

    def understood(self, words: list[Word | Assignment], joined: str) -> Iterator[Statement | Keyword]:
        """Keywords at the beginning, then the command."""
        negated = False
        while words:
            first = words[0]
            word = first.literal if isinstance(first, Word) and not first.quoted else ""
            if word == "!":
                negated = not negated
            elif word in _LOOPS:
                self.loop_word = word
                yield Keyword("loop", first.line, joined, _items(words) if word == "for" else ())
                joined = ""
                if word in ("for", "select"):
                    yield from self.loop(words[1:])
                    return
            elif word == "case":
                self.cases += 1
                yield Keyword(word, first.line, joined, _words(words[1:2]))
                return
            elif word in _KEYWORDS:
                self.cases -= word == "esac" and self.cases > 0
                yield Keyword(word, first.line, joined)
                joined = ""
            elif word not in _SKIPPED:
                break
            elif word == "do" and self.loop_word == "while":
                yield Keyword("do", first.line)
            words = words[1:]
        documents, self.documents = tuple(self.documents), []
        if words:
            yield _statement(words, joined, negated, documents)

    def loop(self, words: list[Word | Assignment]) -> Iterator[Statement]:
        """``for NAME in ...`` sets NAME to what only a run would tell."""
        if words and isinstance(words[0], Word) and _NAME.fullmatch(words[0].literal):
            line = words[0].line
            items = _items([words[0], *words])
            open_ = Word((Unexpanded(f"${{{words[0].literal}}}", line),), line)
            value = items[0] if len(items) == 1 else open_
            yield Statement((Assignment(words[0].literal, False, value, line),), (), line)

    def pattern(self) -> Keyword | None:
        """``a | b)`` in a case; None where the case ends."""
        alternatives: list[Word] = []
        while self.at < len(self.text):
            self.blanks()
            here = self.here()
            if here == "\n":
                self.line += 1
                self.at += 1
            elif here == ")":
                self.at += 1
                return Keyword("pattern", self.line, words=tuple(alternatives))
            elif here in ENDS:
                self.at += 1
            else:
                start, line = self.at, self.line
                word = self.word()
                alternatives.append(word if isinstance(word, Word) else assignment_word(word))
                if len(alternatives) == 1 and alternatives[0].literal == "esac":
                    self.at, self.line = start, line
                    return None
        return None

    # -- redirections -----------------------------------------------------------------------------------

    def redirection(self) -> None:
        """Skips ``> file`` and its kin; a here-document begins at the end of the line."""
        start = self.at
        while self.here() and self.here() in "<>&|":
            self.at += 1
        operator = self.text[start : self.at]
        if operator == "<<" and self.here() == "-":
            self.at += 1
            operator = "<<-"
        self.blanks()
        if not self.here() or self.here() in ENDS:
            return
        line = self.line
        parts, quoted = self.parts(ENDS)
        if operator in ("<<", "<<-"):
            self.waiting.append((Word(parts, line, quoted), operator == "<<-"))
        elif operator == ">":
            self.target = Word(parts, line, quoted)

    def here_documents(self) -> None:
        """Reads the texts that the line before announced."""
        for mark, stripped in self.waiting:
            line, rows = self.line, list[str]()
            while self.at < len(self.text):
                end = self.text.find("\n", self.at)
                end = len(self.text) if end < 0 else end
                row = self.text[self.at : end].rstrip("\r")
                self.at = min(end + 1, len(self.text))
                self.line += 1
                row = row.lstrip("\t") if stripped else row
                if row == "".join(part.text for part in mark.parts if isinstance(part, Literal)):
                    break
                rows.append(row)
            self.documents.append(HereDocument(self.target, "\n".join(rows), line, mark.quoted))
        self.waiting.clear()


def _statement(
    words: Sequence[Word | Assignment], joined: str, negated: bool, documents: tuple[HereDocument, ...]
) -> Statement:
    """Assignments in front, or behind ``export`` and its kin, and the words of the command."""
    first = words[0]
    declared = isinstance(first, Word) and first.literal in _DECLARING
    assignments: list[Assignment] = []
    rest: list[Word] = []
    for word in words[1:] if declared else words:
        if isinstance(word, Assignment) and (declared or not rest):
            assignments.append(word)
        elif isinstance(word, Assignment):
            rest.append(assignment_word(word))
        elif not declared:
            rest.append(word)
    return Statement(tuple(assignments), tuple(rest), first.line, joined, negated, documents)


def _items(words: Sequence[Word | Assignment]) -> tuple[Word, ...]:
    """What a loop goes over (``for NAME in a b c``), where all of it is written out."""
    rest = words[2:]
    if not rest or not isinstance(rest[0], Word) or rest[0].literal != "in":
        return ()
    items = _words(rest[1:])
    return items if all(item.literal for item in items) else ()


def _changed(set_: re.Match[str] | None, counted: re.Match[str] | None) -> tuple[str, str]:
    """The variable that arithmetic sets, and the expression of its new value."""
    if set_ is not None:
        return set_[1], f"{set_[1]} {set_[2]} ({set_[3]})" if set_[2] else set_[3]
    assert counted is not None
    name = counted[1] or counted[4]
    return name, f"{name} {(counted[2] or counted[3])[0]} 1"


def _opens_patterns(words: Sequence[Word | Assignment]) -> bool:
    """Whether the words end in ``case WORD in``."""
    if len(words) < 3:
        return False
    first, last = words[-3], words[-1]
    return (
        isinstance(first, Word)
        and first.literal == "case"
        and isinstance(last, Word)
        and last.literal == "in"
    )


def _words(words: Sequence[Word | Assignment]) -> tuple[Word, ...]:
    return tuple(word if isinstance(word, Word) else assignment_word(word) for word in words)


class _ReaderOnOneLine(_Reader):
    """Reads a text whose lines all count as the first."""

    @property
    def line(self) -> int:
        """The one line."""
        line: int = self._line
        return line

    @line.setter
    def line(self, line: int) -> None:
        self._line = self.__dict__.get("_line", line)
