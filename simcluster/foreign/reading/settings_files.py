"""The settings of a YAML or JSON file: every leaf with its path and line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from simcluster.document import Document
from simcluster.errors import Problem, ScenarioError
from simcluster.foreign.reading.flag import Flag
from simcluster.foreign.reading.yaml_references import follow_references


def read_settings(text: str, name: str) -> list[Flag]:
    """The leaves of a YAML file in order, named by their paths (``model.hidden_size``).

    References to other settings (``${model.x}``, ``${.x}``) are followed, and arithmetic with them is worked
    out (``yaml_references``). Raises ScenarioError, with its place, for text that is no YAML.
    """
    document = Document.parse(text, name)
    return [_flag(document, path, value) for path, value in leaves_of(document.data)]


def read_json(text: str, name: str) -> list[Flag]:
    """The leaves of a JSON file; ScenarioError, with its place, for text that is no JSON."""
    stripped = text.lstrip("\ufeff \t\r\n")
    if not stripped.startswith("{"):
        line = text.count("\n", 0, len(text) - len(stripped)) + 1
        raise ScenarioError(Problem("this is not a JSON object; expected '{'", where=f"{name}:{line}:1"))
    for number, written in enumerate(text.splitlines(), start=1):
        if (comment := written.lstrip()).startswith(("//", "/*")):
            where = f"{name}:{number}:{len(written) - len(comment) + 1}"
            raise ScenarioError(Problem("JSON has no comments", hint="take this one out", where=where))
    # JSON is YAML except for tabs, which may only stand between its parts; columns stay as they are.
    return read_settings(text.replace("\t", " "), name)


def _flag(document: Document, path: tuple[Any, ...], value: Any) -> Flag:
    name = ".".join(map(str, path))
    mark = document.mark(path)
    resolved, missing = follow_references(document.data, path, value)
    text = f"{name}: {shown_value(value)}"
    return Flag(name, resolved, text, f"{mark.name}:{mark.line}", missing)


def leaves_of(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """(path, value) of everything that is not a mapping, or an empty one; lists are leaves."""
    if isinstance(data, Mapping) and data:
        for key, value in data.items():
            yield from leaves_of(value, (*path, key))
    else:
        yield path, data


def shown_value(value: Any) -> str:
    """A value as a file writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    return "null" if value is None else str(value)
