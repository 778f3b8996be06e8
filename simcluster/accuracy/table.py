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


class CellError(ValueError):
    """A cell that cannot be read; ``title`` is that of its column."""

    def __init__(self, title: str, message: str) -> None:
        super().__init__(f"{title} {message}")
        self.title = title


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
    refused: list[Problem] | None = None,
) -> list[Row]:
    """``make(line, cells by title)`` of every row that is not empty, in order.

    Raises ScenarioError, with every problem and its ``file:line:column``: columns that are missing, no rows
    at all, rows of another length, and the ValueErrors of ``make``. The problems of single rows, whose
    ``path`` is the row's id, go into ``refused``, if that is given; only where no row can be read are they
    raised.
    """
    wrong: dict[int, Problem] = {}
    rows: list[Row] = []
    text = text_of(path)
    for line, cells in _cells(path, text, columns, required, wrong):
        try:
            rows.append(make(line, cells))
        except CellError as error:
            place = _place(text, line, list(cells).index(error.title))
            wrong[line] = Problem(str(error), cells.get("id", ""), where=f"{path}:{place}")
        except ValueError as error:
            wrong[line] = Problem(str(error), cells.get("id", ""), where=f"{path}:{line}")
    problems = [wrong[line] for line in sorted(wrong)]
    if refused is None or not rows:
        if problems:
            raise ScenarioError(*problems)
    else:
        refused += problems
    return rows


def parse_count(cells: Mapping[str, str], title: str) -> int | None:
    """A cell as a whole number of at least one, or None if it is empty; ValueError if it is none."""
    text = cells[title]
    if not text:
        return None
    number = parse_whole(text)
    if not number:
        raise CellError(title, f"'{text}' is not a whole number of at least one")
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
        raise CellError(title, f"'{text}' is not a number above zero")
    return value


def _cells(
    path: str | Path, text: str, columns: Sequence[str], required: Sequence[str], wrong: dict[int, Problem]
) -> Iterator[tuple[int, dict[str, str]]]:
    """The line and the cells by title of every row; ``wrong`` gets the rows of another length, by line."""
    rows: list[tuple[int, dict[str, str]]] = []
    reader = _lines(text)
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
                message, known = (
                    f"{len(cells)} cells, but {len(head)} titles",
                    dict(zip(head, cells, strict=False)),
                )
                wrong[reader.line_num] = Problem(message, known.get("id", "").strip(), where=where)
                continue
            rows.append((reader.line_num, dict(zip(head, (cell.strip() for cell in cells), strict=True))))
    except csv.Error as error:
        raise ScenarioError(*wrong.values(), _no_csv(path, reader, error)) from None
    if not wrong and not rows:
        raise ScenarioError(Problem("the file has titles, but no rows", where=str(path)))
    yield from rows


def _place(text: str, last: int, index: int) -> str:
    """``line:column`` of the cell of this index, counted from 0, in the row that ends on line ``last``."""
    lines = io.StringIO(text, newline=None).read().split("\n")
    line = last
    while line > 1 and "\n".join(lines[line - 1 : last]).count('"') % 2:
        line -= 1
    quoted, column = False, 1
    for character in "\n".join(lines[line - 1 : last]):
        if not index:
            break
        column += 1
        quoted ^= character == '"'
        index -= character == "," and not quoted
        if character == "\n":
            line, column = line + 1, 1
    return f"{line}:{column}"


def _reader(path: str | Path) -> Reader:
    """The lines of a file as lists of cells, whatever ends its lines."""
    return _lines(text_of(path))


def _lines(text: str) -> Reader:
    # A text that is opened without translation keeps the ends of its lines, all of which the reader knows.
    return csv.reader(io.StringIO(text, newline=""), strict=True)


def _no_csv(path: str | Path, reader: Reader, error: csv.Error) -> Problem:
    return Problem(f"this is not CSV: {error}", where=f"{path}:{reader.line_num}")


def _head(reader: Iterator[list[str]]) -> list[str]:
    return [title.strip() for title in next(reader, [])]
