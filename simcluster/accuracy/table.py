"""Files of published rows: CSV with a line of titles."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from simcluster.document import text_of
from simcluster.errors import Problem, ScenarioError

if TYPE_CHECKING:
    from _csv import Reader

Row = TypeVar("Row")

_DIGITS = 18
"""The longest whole number that is read: all of them are counts or bytes."""

_THOUSANDS = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+")
_SHORT = re.compile(r"([0-9]{1,4}) ?([KMG])(?:i?B)?", re.IGNORECASE)
_SHIFTS = {"K": 10, "M": 20, "G": 30}


def column_titles(path: str | Path) -> list[str]:
    """The titles of a file's columns; ScenarioError if it cannot be read or is no CSV."""
    reader = _reader(path)
    try:
        return _head(reader)
    except csv.Error as error:
        raise ScenarioError(_no_csv(path, reader, error)) from None


def read_table(
    path: str | Path,
    columns: Sequence[str],
    required: Sequence[str],
    make: Callable[[int, Mapping[str, str]], Row],
) -> list[Row]:
    """``make(line, cells by title)`` of every row that is not empty, in order.

    Raises ScenarioError, with every problem and its ``file:line``: columns that are missing, rows of another
    length, no rows at all, and the ValueErrors of ``make``.
    """
    problems: list[Problem] = []
    rows: list[Row] = []
    for line, cells in _cells(path, columns, required):
        try:
            rows.append(make(line, cells))
        except ValueError as error:
            problems.append(Problem(str(error), where=f"{path}:{line}"))
    if problems:
        raise ScenarioError(*problems)
    return rows


def parse_count(cells: Mapping[str, str], title: str) -> int | None:
    """A cell as a whole number of at least one, or None if it is empty; ValueError if it is none."""
    text = cells[title]
    if not text:
        return None
    number = parse_whole(text)
    if not number:
        raise ValueError(f"{title} '{text}' is not a whole number of at least one")
    return number


def parse_whole(text: str) -> int | None:
    """The whole number that a cell holds; None if it holds none.

    ``64.0`` is 64: programs that keep a column of numbers as floats, for its empty cells, write so. And
    ``4,096`` is 4096.
    """
    digits, _, fraction = (text.replace(",", "") if _THOUSANDS.fullmatch(text) else text).partition(".")
    if not digits.isdecimal() or len(digits) > _DIGITS or fraction.strip("0"):
        return None
    return int(digits)


def parse_size(cells: Mapping[str, str], title: str) -> int | None:
    """A cell as bytes, also as nccl-tests writes them (``8M``, ``1G``, powers of two); None if it is empty.

    ValueError if it is none.
    """
    if short := _SHORT.fullmatch(cells[title]):
        return int(short[1]) << _SHIFTS[short[2].upper()]
    return parse_count(cells, title)


def parse_figure(cells: Mapping[str, str], title: str) -> float | None:
    """A cell as a number above zero, or None if it is empty or not there; ValueError if it is none."""
    text = cells.get(title, "")
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{title} '{text}' is not a number above zero")
    return value


def _cells(
    path: str | Path, columns: Sequence[str], required: Sequence[str]
) -> Iterator[tuple[int, dict[str, str]]]:
    problems: list[Problem] = []
    rows: list[tuple[int, dict[str, str]]] = []
    reader = _reader(path)
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
            rows.append((reader.line_num, dict(zip(head, (cell.strip() for cell in cells), strict=True))))
    except csv.Error as error:
        problems.append(_no_csv(path, reader, error))
    if not problems and not rows:
        problems.append(Problem("the file has titles, but no rows", where=str(path)))
    if problems:
        raise ScenarioError(*problems)
    yield from rows


def _reader(path: str | Path) -> Reader:
    """The lines of a file as lists of cells, whatever ends its lines."""
    # A text that is opened without translation keeps the ends of its lines, all of which the reader knows.
    return csv.reader(io.StringIO(text_of(path), newline=""), strict=True)


def _no_csv(path: str | Path, reader: Reader, error: csv.Error) -> Problem:
    return Problem(f"this is not CSV: {error}", where=f"{path}:{reader.line_num}")


def _head(reader: Iterator[list[str]]) -> list[str]:
    return [title.strip() for title in next(reader, [])]
