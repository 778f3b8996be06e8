"""Published training runs, one per line of a CSV file."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from simcluster.document import text_of
from simcluster.errors import Problem, ScenarioError

REQUIRED = (
    "id",
    "framework",
    "model",
    "layers",
    "hidden",
    "heads",
    "vocab",
    "seq_len",
    "hardware",
    "num_devices",
    "data",
    "tensor",
    "pipeline",
    "micro_batch",
    "global_batch",
    "recompute",
    "precision",
    "peak_mem_gib",
)
"""Columns that the file must have; others that are known may be absent, further ones are not read."""

MEMORY = "peak_mem_gib"


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run: what its columns say, as text, and the measured peak memory of a device in bytes."""

    line: int
    name: str
    cells: Mapping[str, str]
    memory: float

    @property
    def group(self) -> str:
        """What its source is called: the id without its number."""
        return self.name.rpartition("-")[0] or self.name

    def text(self, column: str) -> str:
        """A cell; empty where the file has none."""
        return self.cells.get(column, "")

    def number(self, column: str, otherwise: int = 1) -> int:
        """A cell as a whole number; ValueError if it is none."""
        cell = self.text(column)
        if cell and not cell.isdecimal():
            raise ValueError(f"{column} '{cell}' is no whole number")
        return int(cell) if cell else otherwise


def holds_runs(path: str | Path) -> bool:
    """Whether a file has the columns of runs, by its titles."""
    head = next(csv.reader(io.StringIO(text_of(path))), [])
    return MEMORY in (title.strip() for title in head)


def read_runs(path: str | Path) -> list[RunRow]:
    """The runs of a file that state their peak memory, in its order.

    Raises ScenarioError with every problem and its ``file:line``: columns that are missing, lines of another
    length, peaks that are no numbers above zero.
    """
    reader = csv.reader(io.StringIO(text_of(path)), strict=True)
    head = [title.strip() for title in next(reader, [])]
    if missing := [column for column in REQUIRED if column not in head]:
        raise ScenarioError(Problem(f"missing columns: {', '.join(missing)}", where=f"{path}:1"))
    rows: list[RunRow] = []
    problems: list[Problem] = []
    for cells in reader:
        if not any(cell.strip() for cell in cells):
            continue
        where = f"{path}:{reader.line_num}"
        if len(cells) != len(head):
            problems.append(Problem(f"{len(cells)} cells, but {len(head)} titles", where=where))
            continue
        written = dict(zip(head, (cell.strip() for cell in cells), strict=True))
        if not written[MEMORY]:
            continue
        try:
            gibibytes = float(written[MEMORY])
        except ValueError:
            gibibytes = 0.0
        if not 0 < gibibytes < float("inf"):
            problems.append(Problem(f"{MEMORY} '{written[MEMORY]}' is no number above zero", where=where))
            continue
        rows.append(RunRow(reader.line_num, written["id"], written, gibibytes * 2**30))
    if not problems and not rows:
        problems.append(Problem("no row states its peak memory", where=str(path)))
    if problems:
        raise ScenarioError(*problems)
    return rows
