"""A scenario as a YAML text that explains itself: one value per line, with a remark behind it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from simcluster.document import Document, resolve

HINT = "# yaml-language-server: $schema=./scenario.schema.json"
"""The line by which editors find the schema, in scenarios beside it."""

_PLAIN = re.compile(r"[A-Za-z0-9_/](?:[A-Za-z0-9_./+()-]| (?! |$))*")
_WIDTH = 108
_FURTHEST = 40


def commented_yaml(
    data: Mapping[str, Any],
    remarks: Mapping[str, str],
    *,
    head: Iterable[str] = (),
    tail: Iterable[str] = (),
) -> str:
    """The text of a scenario; ``remarks`` stand behind their key path, ``head`` and ``tail`` are comments.

    Reading the text gives exactly ``data``: lists are written on one line, mappings key by key.
    """
    rows = list(_rows(data, "", 0, remarks))
    column = min(_FURTHEST, max((len(line) for line, remark in rows if remark), default=0))
    lines = [HINT, *_comments(head)]
    for line, remark in rows:
        lines.append(f"{line.ljust(column)}  # {_one_line(remark)}" if remark else line)
    tail = list(_comments(tail))
    text = "\n".join([*lines, *([""] if tail else []), *tail]) + "\n"
    assert Document.parse(text).data == dict(data)
    return text


def _rows(
    data: Mapping[str, Any], path: str, depth: int, remarks: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """(line without remark, remark) of every key."""
    for key, value in data.items():
        name = f"{path}.{key}" if path else str(key)
        start = f"{'  ' * depth}{_scalar(key)}:"
        if isinstance(value, Mapping) and value:
            yield start, remarks.get(name, "")
            yield from _rows(value, name, depth + 1, remarks)
        else:
            yield f"{start} {_flow(value)}", remarks.get(name, "")


def _flow(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_scalar(key)}: {_flow(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    """A value as YAML 1.2 has it; text that would be read as something else, in quotes."""
    if isinstance(value, str):
        safe = _PLAIN.fullmatch(value) and isinstance(resolve(value), str)
        return value if safe else f'"{"".join(map(_escaped, value))}"'
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
        return repr(value)
    return str(value)


def _escaped(character: str) -> str:
    """A character between double quotes."""
    if character in '"\\':
        return f"\\{character}"
    return character if character.isprintable() else f"\\U{ord(character):08x}"


def _comments(lines: Iterable[str]) -> Iterator[str]:
    """Lines as comments, long ones wrapped at words."""
    for line in lines:
        indent = "#" + " " * (1 + len(line) - len(line.lstrip()))
        current = indent
        for word in _one_line(line).split():
            if len(current) + len(word) > _WIDTH and current.strip("# "):
                yield current.rstrip()
                current = indent + "  "
            current += word + " "
        yield current.rstrip()


def _one_line(text: str) -> str:
    """Without line ends and what YAML forbids even in comments."""
    return "".join(c if c.isprintable() else "\ufffd" for c in " ".join(text.split()))
