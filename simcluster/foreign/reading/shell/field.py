"""A script with its variables filled in: commands made of words with the lines they come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import NamedTuple

from simcluster.deferred_dataclass import dataclass


class TextPiece(NamedTuple):
    """Characters of one line; ``condition`` says why they may not be there."""

    text: str
    line: int
    condition: str = ""


@dataclass(frozen=True, slots=True)
class Field:
    """A word after expansion: its pieces, and what could not be filled in."""

    pieces: tuple[TextPiece, ...]
    missing: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The whole text; what is missing stands as it is written."""
        return "".join(piece.text for piece in self.pieces)

    @property
    def line(self) -> int:
        """Where it begins."""
        return self.pieces[0].line if self.pieces else 0

    @property
    def condition(self) -> str:
        """Why it may not be there, or not as it is; empty if it is sure."""
        return next((piece.condition for piece in self.pieces if piece.condition), "")

    def split(self) -> list[Field]:
        """The words in it, blanks between them dropped."""
        words: list[Field] = []
        current: list[TextPiece] = []
        for text, line, condition in self.pieces:
            for index, part in enumerate([text] if text in self.missing else _at_blanks(text)):
                if index and current:
                    words.append(Field(tuple(current), self.missing))
                    current = []
                if part:
                    current.append(TextPiece(part, line, condition))
        if current:
            words.append(Field(tuple(current), self.missing))
        return [Field(word.pieces, tuple(m for m in self.missing if m in word.text)) for word in words]


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


@dataclass(frozen=True, slots=True)
class Here:
    """The text of a here-document, and why it may not be written."""

    text: str
    line: int
    condition: str


@dataclass
class Script:
    """A script whose variables are filled in as far as its text tells."""

    name: str
    """The file, as the user gave it."""
    commands: list[Command] = field(default_factory=list)
    """Its commands in order."""
    values: dict[str, list[Field]] = field(default_factory=dict)
    """What its variables hold."""
    remarks: list[str] = field(default_factory=list)
    """What the user should know."""
    reasons: dict[str, str] = field(default_factory=dict)
    """Words that are not known -> why."""
    documents: dict[str, Here] = field(default_factory=dict)
    """The files that it writes itself."""
    sourced: str = ""
    """The last file that it reads besides."""
    submitted: list[Field] = field(default_factory=list)
    """Options of the command that hands a script to a scheduler."""
    skipped: set[str] = field(default_factory=set)
    """Variables that are set where nothing runs."""


def flags_in(before: Sequence[Field], after: Sequence[Field]) -> bool:
    """Whether flags stand in what one of two values has and the other has not."""
    kept = _alike(before, after)
    return any(
        word.text.startswith("-") for field in (*before[kept:], *after[kept:]) for word in field.split()
    )


def merge_values(
    before: Sequence[Field], after: Sequence[Field], condition: str, *, whole: bool
) -> list[Field]:
    """What two values begin with alike, then what either has besides, under a condition.

    ``whole``: both are one text; lists otherwise.
    """
    kept = _alike(before, after)
    if not whole or len(before) != 1 or len(after) != 1:
        rest = [*before[kept:], *after[kept:]]
        return [*before[:kept], *(Field(_under(condition, field.pieces), field.missing) for field in rest)]
    old, new = before[0], after[0]
    kept = _alike(old.pieces, new.pieces)
    blank = (TextPiece(" ", new.line),) if len(old.pieces) > kept else ()
    rest_of_old, rest_of_new = old.pieces[kept:], new.pieces[kept:]
    pieces = (*_under(condition, rest_of_old), *blank, *_under(condition, rest_of_new))
    return [Field((*old.pieces[:kept], *pieces), tuple(dict.fromkeys(old.missing + new.missing)))]


def _under(condition: str, pieces: Sequence[TextPiece]) -> tuple[TextPiece, ...]:
    """Pieces under a condition, if they are not under one already."""
    return tuple(TextPiece(text, line, said or condition) for text, line, said in pieces)


def _alike(before: Sequence[object], after: Sequence[object]) -> int:
    """How many items at the beginning are the same."""
    kept = 0
    while kept < min(len(before), len(after)) and before[kept] == after[kept]:
        kept += 1
    return kept
