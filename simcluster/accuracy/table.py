"""Files of published rows: CSV with a line of titles."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from simcluster.document import text_of
from simcluster.errors import Problem, ScenarioError

Row = TypeVar("Row")


def titles(path: str | Path) -> list[str]:
    """The titles of a file's columns."""
    return _head(csv.reader(io.StringIO(text_of(path))))


def read_table(
    path: str | Path,
    columns: Sequence[str],
    required: Sequence[str],
    make: Callable[[int, Mapping[str, str]], Row],
) -> list[Row]:
    """What ``make`` makes of every row that is not empty, given its line and its cells by title, in order.

    Raises ScenarioError, with every problem and its ``file:line``: columns that are missing, rows of another
    length, no rows at all, and the ValueErrors of ``make``.
    """
    problems: list[Problem] = []
    found: list[Row] = []
    for line, cells in _cells(path, columns, required):
        try:
            found.append(make(line, cells))
        except ValueError as error:
            problems.append(Problem(str(error), where=f"{path}:{line}"))
    if problems:
        raise ScenarioError(*problems)
    return found


def count(cells: Mapping[str, str], title: str) -> int | None:
    """A cell as a whole number of at least one, or None if it is empty; ValueError if it is none."""
    text = cells[title]
    if not text:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{title} '{text}' is no whole number of at least one")
    return int(text)


def figure(cells: Mapping[str, str], title: str) -> float | None:
    """A cell as a number above zero, or None if it is empty or not there; ValueError if it is none."""
    text = cells.get(title, "")
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{title} '{text}' is no number above zero")
    return value


def _cells(
    path: str | Path, columns: Sequence[str], required: Sequence[str]
) -> Iterator[tuple[int, dict[str, str]]]:
    reader = csv.reader(io.StringIO(text_of(path)), strict=True)
    problems: list[Problem] = []
    found: list[tuple[int, dict[str, str]]] = []
    try:
        head = _head(reader)
        if missing := [column for column in required if column not in head]:
            hint = f"the file begins with a line of titles: {','.join(columns)}"
            raise ScenarioError(
                Problem(f"missing columns: {', '.join(missing)}", hint=hint, where=f"{path}:1")
            )
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            where = f"{path}:{reader.line_num}"
            if len(cells) != len(head):
                problems.append(Problem(f"{len(cells)} cells, but {len(head)} titles", where=where))
                continue
            found.append((reader.line_num, dict(zip(head, (cell.strip() for cell in cells), strict=True))))
    except csv.Error as error:
        problems.append(Problem(f"this is no CSV: {error}", where=f"{path}:{reader.line_num}"))
    if not problems and not found:
        problems.append(Problem("the file has titles, but no rows", where=str(path)))
    if problems:
        raise ScenarioError(*problems)
    yield from found


def _head(reader: Iterator[list[str]]) -> list[str]:
    return [title.strip() for title in next(reader, [])]
