"""Tests of shell scripts (``[ "$SIZE" = 7B ]``, ``[[ ... ]]``), decided where their words are known.

A variable that the script never sets and nobody gave is empty, as where the script is run as it stands: that
decides ``-z`` and ``-n``, and comparisons which hold for an empty value. Other comparisons with it stay open.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_LONGEST = 100
_MOST_STARS = 3

Holds = bool | None
"""Whether a condition holds; None where the text of the script does not tell."""


@dataclass(frozen=True, slots=True)
class Operand:
    """A word of a test: its text with unset variables empty, their names, and what else is not known."""

    text: str
    unset: tuple[str, ...] = ()
    open: tuple[str, ...] = ()


def opposite(condition: Holds) -> Holds:
    """Whether the negation holds."""
    return None if condition is None else not condition


def both(first: Holds, second: Holds) -> Holds:
    """Whether two conditions hold together."""
    if first is False or second is False:
        return False
    return None if first is None or second is None else True


def either(first: Holds, second: Holds) -> Holds:
    """Whether one of two conditions holds."""
    return opposite(both(opposite(first), opposite(second)))


def equal(left: Operand, right: Operand) -> Holds:
    """Whether two words are the same text."""
    if left.open or right.open:
        return None
    if left.text == right.text:
        return True
    return None if left.unset or right.unset else False


def matches(word: Operand, pattern: Operand) -> Holds:
    """Whether a word matches a pattern of a case, or one behind ``==`` between double brackets."""
    signs = pattern.text
    if pattern.open or not any(sign in signs for sign in "*?["):
        return equal(word, pattern)
    if signs == "*":
        return True
    if word.open or word.unset or pattern.unset:
        return None
    if len(signs) > _LONGEST or len(word.text) > _LONGEST or signs.count("*") > _MOST_STARS:
        return None
    return fnmatchcase(word.text, signs)


def holds(words: Sequence[Operand], *, patterns: bool) -> Holds:
    """Whether the test made of these words holds; ``patterns`` between double brackets."""
    if len(words) > _LONGEST:
        return None
    test = _Test(words, patterns)
    found = test.any_of()
    return found if test.at == len(words) else None


class _Test:
    def __init__(self, words: Sequence[Operand], patterns: bool) -> None:
        self.words = words
        self.patterns = patterns
        self.at = 0

    def next(self, *texts: str) -> bool:
        """Whether one of these words is next; goes behind it then."""
        found = self.at < len(self.words) and self.words[self.at].text in texts
        self.at += found
        return found

    def any_of(self) -> Holds:
        found = self.all_of()
        while self.next("||", "-o"):
            found = either(found, self.all_of())
        return found

    def all_of(self) -> Holds:
        found = self.single()
        while self.next("&&", "-a"):
            found = both(found, self.single())
        return found

    def single(self) -> Holds:
        left = self.words[self.at :]
        if len(left) > 2 and (compare := _COMPARED.get(left[1].text)) is not None:
            self.at += 3
            if self.patterns and left[1].text in ("=", "==", "!="):
                found = matches(left[0], left[2])
                return opposite(found) if left[1].text == "!=" else found
            return compare(left[0], left[2])
        if self.next("!"):
            return opposite(self.single())
        if self.next("("):
            found = self.any_of()
            return found if self.next(")") else None
        if len(left) > 1 and left[0].text in ("-z", "-n"):
            self.at += 2
            empty = _empty(left[1])
            return empty if left[0].text == "-z" else opposite(empty)
        if len(left) > 1 and left[0].text.startswith("-") and not left[0].unset:
            self.at += 2
            return None  # files, and what else only a run would tell
        if not left:
            return False
        self.at += 1
        return opposite(_empty(left[0]))


def _empty(word: Operand) -> Holds:
    return None if word.open else not word.text


def _numbers(compare: Callable[[int, int], bool]) -> Callable[[Operand, Operand], Holds]:
    def compared(left: Operand, right: Operand) -> Holds:
        both_known = not (left.open or right.open or left.unset or right.unset)
        if both_known and _INTEGER.fullmatch(left.text) and _INTEGER.fullmatch(right.text):
            return compare(int(left.text), int(right.text))
        return None

    return compared


_COMPARED: Mapping[str, Callable[[Operand, Operand], Holds]] = {
    "=": equal,
    "==": equal,
    "!=": lambda left, right: opposite(equal(left, right)),
    "-eq": _numbers(lambda left, right: left == right),
    "-ne": _numbers(lambda left, right: left != right),
    "-lt": _numbers(lambda left, right: left < right),
    "-le": _numbers(lambda left, right: left <= right),
    "-gt": _numbers(lambda left, right: left > right),
    "-ge": _numbers(lambda left, right: left >= right),
    "=~": lambda left, right: None,
    "<": lambda left, right: None,
    ">": lambda left, right: None,
}
