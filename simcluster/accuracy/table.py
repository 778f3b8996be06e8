"""Files of published rows: CSV with a line of titles."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

from simcluster.document import text_of
from simcluster.errors import Problem, ScenarioError


def titles(path: str | Path) -> list[str]:
    """The titles of a file's columns."""
    return _head(csv.reader(io.StringIO(text_of(path))))


def read_table(
    path: str | Path, columns: Sequence[str], required: Sequence[str]
) -> Iterator[tuple[int, dict[str, str]]]:
    """(line, title -> cell) of every row that is not empty.

    Raises ScenarioError, with every problem and its ``file:line``: columns that are missing, rows of another
    length, no rows at all.
    """
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
