"""Phrases for error messages: kinds of values, values as written, bounds, choices."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

TEXT = "text"
INTEGER = "integer"
NUMBER = "number"
BOOLEAN = "boolean"
NOTHING = "nothing"
LIST = "list"
MAPPING = "mapping"
KINDS = frozenset((TEXT, INTEGER, NUMBER, BOOLEAN, NOTHING, LIST, MAPPING))

_KIND_OF: dict[type | tuple[type, ...], str] = {
    type(None): NOTHING,
    bool: BOOLEAN,
    int: INTEGER,
    float: NUMBER,
    str: TEXT,
    (list, tuple, set, frozenset): LIST,
}
"""Types -> the kind of their values; the first that fits counts, for a boolean is an integer too."""

_WIDTH = 60
_BOUNDS = {"ge": "of at least", "gt": "above", "le": "at most", "lt": "below", "multiple_of": "divisible by"}


def kind_of(value: Any) -> str:
    """The kind of a plain value: text, integer, number, boolean, nothing, list or mapping."""
    return next((kind for types, kind in _KIND_OF.items() if isinstance(value, types)), MAPPING)


def spelled_value(value: Any) -> str:
    """A plain value as it is written in a document, long text cut; mappings and lists by their kind."""
    kind = kind_of(value)
    if kind == TEXT:
        return f"'{value}'" if len(value) <= _WIDTH else f"'{value[: _WIDTH - 1]}…'"
    if kind == BOOLEAN:
        return "true" if value else "false"
    if kind == NOTHING:
        return "null"
    if kind == NUMBER and not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    return f"a {kind}" if kind in (LIST, MAPPING) else str(value)


def bounds_phrase(noun: str, bounds: dict[str, Any]) -> str:
    """A noun with its bounds: ``an integer of at least 1``, ``a number above 0 and at most 1``."""
    bounds = {
        name: int(bound) if bound == int(bound) else bound
        for name, bound in bounds.items()
        if name in _BOUNDS
    }
    if "ge" in bounds and "le" in bounds:
        return f"{noun} from {bounds['ge']} to {bounds['le']}"
    parts = [f"{word} {bounds[bound]}" for bound, word in _BOUNDS.items() if bound in bounds]
    return f"{noun} {' and '.join(parts)}" if parts else noun


def choice_phrase(words: Iterable[str]) -> str:
    """Words as a choice: ``a, b or c``; repeated ones once."""
    *most, last = dict.fromkeys(words) or [""]
    return f"{', '.join(most)} or {last}" if most else last


def count_phrase(number: int, noun: str) -> str:
    """A number with its noun: ``1 item``, ``2 items``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
