"""The settings of a TOML file: every leaf with its path and line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Any

from simcluster.errors import Problem, ScenarioError
from simcluster.foreign.reading.flag import Flag
from simcluster.foreign.reading.settings_files import leaves_of, shown_value

_TABLE = re.compile(r"\s*\[+\s*([^\[\]]+?)\s*\]+\s*(?:#.*)?")
_KEY = re.compile(r"\s*([A-Za-z0-9_.\"'\-]+)\s*=")
_PLACE = re.compile(r"(.*) \(at line (\d+), column (\d+)\)")


def read_toml(text: str, name: str) -> list[Flag]:
    """The leaves of a TOML file in order, named by their paths (``training.seq_len``).

    Raises ScenarioError, with its place, for text that is no TOML.
    """
    try:
        data = tomllib.loads(text.replace("\r\n", "\n").removeprefix("\ufeff"))
    except ValueError as error:
        place = _PLACE.fullmatch(str(error))
        where = f"{name}:{place[2]}:{place[3]}" if place else name
        raise ScenarioError(
            Problem(f"this is not TOML: {place[1] if place else error}", where=where)
        ) from None
    except RecursionError:
        raise ScenarioError(Problem("its values are nested too deeply", where=name)) from None
    lines = _lines(text)
    return [_flag(".".join(map(str, path)), value, lines, name) for path, value in leaves_of(data)]


def _flag(name: str, value: Any, lines: Mapping[str, int], file: str) -> Flag:
    # A value inside an inline table stands where the table does.
    keys = name.split(".")
    outer = (".".join(keys[:length]) for length in range(len(keys), 0, -1))
    line = next((lines[key] for key in outer if key in lines), None)
    return Flag(name, value, f"{name} = {shown_value(value)}", f"{file}:{line}" if line else file)


def _lines(text: str) -> dict[str, int]:
    """The line of every key, as far as keys stand at the beginnings of lines."""
    lines: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _TABLE.fullmatch(line):
            table = _plain(header[1])
        elif key := _KEY.match(line):
            lines.setdefault(f"{table}.{_plain(key[1])}" if table else _plain(key[1]), number)
    return lines


def _plain(key: str) -> str:
    return ".".join(part.strip().strip("\"'") for part in key.split("."))
