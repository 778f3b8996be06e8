"""Plain (unquoted) YAML text as a Python value: the core schema of YAML 1.2.

    null      ``null``, ``Null``, ``NULL``, ``~``, nothing at all
    bool      ``true`` and ``false``, also capitalised; ``on``, ``off``, ``yes``, ``no`` are text
    int       ``42``, ``010`` (ten), ``0o10`` (eight), ``0x1F``
    float     ``1e-6``, ``3.5``, ``.5``, ``.inf``, ``.nan``
    str       everything else: dates, versions and ``12:30:00`` too

One thing is added to the core schema: digits may be grouped with ``_``, as in ``1_000_000``.
"""

from __future__ import annotations

import re
from functools import lru_cache

Scalar = str | int | float | bool | None

_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
    **{sign + word: float("inf") for sign in ("", "+") for word in (".inf", ".Inf", ".INF")},
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
}
_DIGITS = "[0-9]+(?:_[0-9]+)*"
_INT = re.compile(rf"[-+]?{_DIGITS}")
_FLOAT = re.compile(rf"[-+]?(?:\.{_DIGITS}|{_DIGITS}(?:\.(?:{_DIGITS})?)?)(?:[eE][-+]?[0-9]+)?")
_OCTAL = re.compile("0o[0-7]+")
_HEXADECIMAL = re.compile("0x[0-9a-fA-F]+")
_LIMIT = 2**64


@lru_cache(maxsize=4096)
def resolve(text: str) -> Scalar:
    """The value of plain text, such as ``1_000_000`` -> 1000000 and ``on`` -> 'on'.

    Raises ValueError for an integer of more than 64 bits.
    """
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "0123456789.+-":
        return text
    if _INT.fullmatch(text):
        return _bounded(text, 10)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _OCTAL.fullmatch(text):
        return _bounded(text, 8)
    if _HEXADECIMAL.fullmatch(text):
        return _bounded(text, 16)
    return text


def _bounded(text: str, base: int) -> int:
    number = int(text, base) if len(text) < 1000 else _LIMIT
    if abs(number) >= _LIMIT:
        raise ValueError("this integer has more than 64 bits; put it in quotes if it is text")
    return number
