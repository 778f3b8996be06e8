"""Values of ``${NAME%suffix}`` and ``$(expr $A + 4)``: substrings and arithmetic only; nothing is run."""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import fnmatchcase

_OPERATION = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(%%|%|##|#|//|/|,,|\^\^|:(?=[0-9]))(.*)\}", re.S)
_LENGTH = re.compile(r"\$\{#([A-Za-z_][A-Za-z0-9_]*)\}")
_SUM = r"([-+*/%() 0-9A-Za-z_${}]+)"
_SUMS = tuple(
    re.compile(rf"(?:\$\(|`)\s*{form}\s*(?:\)|`)")
    for form in (
        r"expr\s+((?:[-+*/%() 0-9A-Za-z_${}]|\\\*|'\*'|\"\*\")+)",
        rf"echo\s+\"?{_SUM}\"?\s*\|\s*bc(?:\s+-l)?",
        r"echo\s+'([-+*/%() 0-9]+)'\s*\|\s*bc(?:\s+-l)?",
        rf"bc(?:\s+-l)?\s*<<<\s*\"?{_SUM}\"?",
        rf"python3?\s+-c\s+\"print\((?:int)?{_SUM}\)\"",
        r"python3?\s+-c\s+'print\((?:int)?([-+*/%() 0-9]+)\)'",
        r"awk\s+'BEGIN\s*\{\s*print\s+([-+*/%() 0-9]+?)\s*;?\s*\}'",
        rf"awk\s+\"BEGIN\s*\{{\s*print\s+{_SUM}\s*;?\s*\}}\"",
    )
)
_SIGNS = ("*", "?", "[")
_LONGEST = 200
_MOST_STARS = 2


def substituted(
    text: str, value: Callable[[str], str | None], computed: Callable[[str], int | None]
) -> str | None:
    """What a substitution stands for; None where only a shell could tell.

    ``value`` gives the text of a variable, None if that is not known; ``computed`` works out a sum.
    """
    if len(text) > _LONGEST:
        return None
    if (length := _LENGTH.fullmatch(text)) and (known := value(length[1])) is not None:
        return str(len(known))
    if operation := _OPERATION.fullmatch(text):
        known = value(operation[1])
        return None if known is None else _changed(known, operation[2], operation[3])
    for form in _SUMS:
        if written := form.fullmatch(text):
            number = computed(re.sub(r"\\\*|'\*'|\"\*\"", "*", written[1]))
            return None if number is None else str(number)
    return None


def _changed(text: str, operator: str, pattern: str) -> str | None:
    """A text after ``%``, ``#``, ``/``, ``,,``, ``^^`` or ``:``; None for what is not plain."""
    if "$" in pattern or "`" in pattern or len(text) > _LONGEST or pattern.count("*") > _MOST_STARS:
        return None
    match operator:
        case "%" | "%%":
            ends = range(len(text), -1, -1) if operator == "%" else range(len(text) + 1)
            return next((text[:end] for end in ends if fnmatchcase(text[end:], pattern)), text)
        case "#" | "##":
            starts = range(len(text) + 1) if operator == "#" else range(len(text), -1, -1)
            return next((text[start:] for start in starts if fnmatchcase(text[:start], pattern)), text)
        case ",," | "^^":
            return None if pattern else text.lower() if operator == ",," else text.upper()
        case ":":
            first, _, length = pattern.partition(":")
            if not first.isdigit() or (length and not length.isdigit()):
                return None
            return text[int(first) :][: int(length)] if length else text[int(first) :]
    old, _, new = pattern.partition("/")
    if not old or any(sign in old for sign in _SIGNS):
        return None
    return text.replace(old, new, -1 if operator == "//" else 1)
