"""A scenario's data as YAML, short and readable; reading it gives the same data."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_]*(?:[ ./-][A-Za-z0-9_]+)*")
_WORDS = {"true", "false", "null", "yes", "no", "on", "off"}
_WIDTH = 96


def scenario_listing(data: Mapping[str, Any]) -> str:
    """The YAML of plain data: mappings in blocks, short lists in one line."""
    return "\n".join(_lines(data, "")) + "\n"


def _lines(data: Mapping[str, Any], margin: str) -> Iterator[str]:
    for key, value in data.items():
        head = f"{margin}{_flow(str(key))}:"
        flow = _flow(value)
        if isinstance(value, Mapping) and value:
            yield head
            yield from _lines(value, margin + "  ")
        elif isinstance(value, Sequence) and not isinstance(value, str) and len(head + flow) > _WIDTH:
            yield head
            yield from (f"{margin}  - {_flow(item)}" for item in value)
        else:
            yield f"{head} {flow}"


def _flow(value: Any) -> str:
    """In one line; JSON is YAML where a text could be read as something else."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_flow(str(key))}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return json.dumps(value, ensure_ascii=False)
