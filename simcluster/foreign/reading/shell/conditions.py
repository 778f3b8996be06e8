"""Tests of shell scripts (``[ "$SIZE" = 7B ]``, ``[[ ... ]]``), decided where their words are known.

A variable that the script never sets and nobody gave is empty, as where the script is run as it stands: that
decides ``-z`` and ``-n``, and comparisons which hold for an empty value. Other comparisons with it stay open.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase

from simcluster.deferred_dataclass import dataclass

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_LONGEST = 100
_MOST_STARS = 3

Truth = bool | None
"""Whether a condition holds; None where the text of the script does not tell."""


@dataclass(frozen=True, slots=True)
class Operand:
    """A word of a test: its text with unset variables empty, their names, and what else is not known."""

    text: str
    unset: tuple[str, ...] = ()
    open: tuple[str, ...] = ()


def negated(condition: Truth) -> Truth:
    """Whether the negation holds."""
    return None if condition is None else not condition


def conjunction(first: Truth, second: Truth) -> Truth:
    """Whether two conditions hold together."""
    if first is False or second is False:
        return False
    return None if first is None or second is None else True


def disjunction(first: Truth, second: Truth) -> Truth:
    """Whether one of two conditions holds."""
    return negated(conjunction(negated(first), negated(second)))


def words_equal(left: Operand, right: Operand) -> Truth:
    """Whether two words are the same text."""
    if left.open or right.open:
        return None
    if left.text == right.text:
        return True
    return None if left.unset or right.unset else False


def matches_case(word: Operand, pattern: Operand) -> Truth:
    """Whether a word matches a pattern of a case, or one behind ``==`` between double brackets."""
    signs = pattern.text
    if pattern.open or not any(sign in signs for sign in "*?["):
        return words_equal(word, pattern)
    if signs == "*":
        return True
    if word.open or word.unset or pattern.unset:
        return None
    if len(signs) > _LONGEST or len(word.text) > _LONGEST or signs.count("*") > _MOST_STARS:
        return None
    return fnmatchcase(word.text, signs)


def test_holds(words: Sequence[Operand], *, patterns: bool) -> Truth:
    """Whether the test made of these words holds; ``patterns`` between double brackets."""
    if len(words) > _LONGEST:
        return None
    test = _Test(words, patterns)
    holds = test.any_of()
    return holds if test.at == len(words) else None


class _Test:
    def __init__(self, words: Sequence[Operand], patterns: bool) -> None:
        self.words = words
        self.patterns = patterns
        self.at = 0

    def next(self, *texts: str) -> bool:
        """Whether one of these words is next; goes behind it then."""
        is_next = self.at < len(self.words) and self.words[self.at].text in texts
        self.at += is_next
        return is_next

    def any_of(self) -> Truth:
        holds = self.all_of()
        while self.next("||", "-o"):
            holds = disjunction(holds, self.all_of())
        return holds

    def all_of(self) -> Truth:
        holds = self.single()
        while self.next("&&", "-a"):
            holds = conjunction(holds, self.single())
        return holds

    def single(self) -> Truth:
        left = self.words[self.at :]
        if len(left) > 2 and (compare := _COMPARED.get(left[1].text)) is not None:
            self.at += 3
            if self.patterns and left[1].text in ("=", "==", "!="):
                holds = matches_case(left[0], left[2])
                return negated(holds) if left[1].text == "!=" else holds
            return compare(left[0], left[2])
        if self.next("!"):
            return negated(self.single())
        if self.next("("):
            holds = self.any_of()
            return holds if self.next(")") else None
        if len(left) > 1 and left[0].text in ("-z", "-n"):
            self.at += 2
            empty = _empty(left[1])
            return empty if left[0].text == "-z" else negated(empty)
        if len(left) > 1 and left[0].text.startswith("-") and not left[0].unset:
            self.at += 2
            return None  # files, and what else only a run would tell
        if not left:
            return False
        self.at += 1
        return negated(_empty(left[0]))


def _empty(word: Operand) -> Truth:
    return None if word.open else not word.text


def _numbers(compare: Callable[[int, int], bool]) -> Callable[[Operand, Operand], Truth]:
    def compared(left: Operand, right: Operand) -> Truth:
        both_known = not (left.open or right.open or left.unset or right.unset)
        if both_known and _INTEGER.fullmatch(left.text) and _INTEGER.fullmatch(right.text):
            return compare(int(left.text), int(right.text))
        return None

    return compared


_COMPARED: Mapping[str, Callable[[Operand, Operand], Truth]] = {
    "=": words_equal,
    "==": words_equal,
    "!=": lambda left, right: negated(words_equal(left, right)),
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
