"""The rows of a sweep as data, as files, and as people see them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simcluster.deferred_dataclass import dataclass
from simcluster.draw import csv_text
from simcluster.sweeps.plot_page import sweep_html, sweep_page
from simcluster.sweeps.point import Row
from simcluster.sweeps.ranked_points import RankedPoints
from simcluster.sweeps.table import sweep_text
from simcluster.trace import write_file

if TYPE_CHECKING:
    import polars


@dataclass(frozen=True)
class SweepResult:
    """What a sweep gives: ``ranked`` are the points that are done.

    ``print`` shows the table with the best first, a notebook the plot and the table. ``rows`` are plain
    dictionaries: the values of keys that vary, ``best``, ``pareto``, ``verdict`` (fits, tight, does not fit,
    impossible, failed, lost), ``fits``, ``reason``, and the figures, None where there are none.
    """

    ranked: RankedPoints

    @property
    def columns(self) -> list[str]:
        """The names of the columns of ``rows``."""
        keys = [variation.key for variation in self.ranked.space.variations]
        return [
            *keys,
            "best",
            "pareto",
            "verdict",
            "fits",
            "reason",
            *(f.column for f in self.ranked.figures),
        ]

    @cached_property
    def rows(self) -> list[Row]:
        """A dictionary for each point, in the order of the cross product."""
        empty = dict.fromkeys(figure.column for figure in self.ranked.figures)
        rows = []
        for point, row in self.ranked.points:
            marks = {"best": point == self.ranked.best_point, "pareto": point in self.ranked.front}
            stated = {name: row[name] for name in ("verdict", "fits", "reason")}
            figures = {name: row.get(name) for name in empty}
            rows.append({**self.ranked.space.values(point), **marks, **stated, **figures})
        return rows

    @property
    def best(self) -> Row | None:
        """The best row that fits, by the objective; of equal ones the first; None if nothing fits."""
        return next((row for row in self.rows if row["best"]), None)

    @property
    def pareto(self) -> list[Row]:
        """The rows that fit and that no other beats in the objective and in memory both, fastest first."""
        by_point = dict(zip((point for point, _ in self.ranked.points), self.rows, strict=True))
        return [by_point[point] for point in self.ranked.front]

    def document(self) -> dict[str, Any]:
        """All of it as JSON-able data, in SI units."""
        return {
            "name": self.ranked.name,
            "vary": {variation.key: list(variation.values) for variation in self.ranked.space.variations},
            "objective": self.ranked.objective.column,
            "rows": self.rows,
            "best": self.best,
            "pareto": self.pareto,
        }

    def to_json(self) -> str:
        """The document as JSON text."""
        return json.dumps(self.document(), indent=2, ensure_ascii=False)

    def to_csv(self, path: str | Path | None = None) -> str:
        """The rows as comma-separated values with titles; also written to ``path`` if given.

        What is not there is empty; lists and mappings are JSON. Raises TraceError if the file cannot be
        written.
        """
        lines = [[_cell(row[name]) for name in self.columns] for row in self.rows]
        text = csv_text(self.columns, *lines) + "\n"
        if path is not None:
            write_file(path, [text.encode()])
        return text

    def frame(self) -> polars.DataFrame:
        """The rows as a polars DataFrame; needs the extra ``notebook``."""
        import polars

        whole = ("num_ranks", "peak_memory_bytes", "needed_memory_bytes", "memory_capacity_bytes")
        kinds: dict[str, Any] = {
            figure.column: polars.Int64 if figure.column in whole else polars.Float64
            for figure in self.ranked.figures
        }
        kinds |= {"best": polars.Boolean, "pareto": polars.Boolean, "fits": polars.Boolean}
        kinds |= {"verdict": polars.String, "reason": polars.String}
        return polars.DataFrame(
            [
                polars.Series(name, _uniform([row[name] for row in self.rows]), dtype=kinds.get(name))
                for name in self.columns
            ]
        )

    def to_html(self, path: str | Path | None = None) -> str:
        """A page with the plot and the table; also written to ``path`` if given.

        Raises TraceError if the file cannot be written.
        """
        page = sweep_page(self.ranked)
        if path is not None:
            write_file(path, [page.encode()])
        return page

    def __str__(self) -> str:
        return sweep_text(self.ranked)

    def __repr__(self) -> str:
        done, total = len(self.ranked.points), self.ranked.space.num_points
        return f"SweepResult: {self.ranked.name}, {done} of {total} points"

    def _repr_html_(self) -> str:
        return sweep_html(self.ranked)


def _cell(value: object) -> object:
    """A value in a CSV file."""
    if value is None:
        return ""
    return value if isinstance(value, str | float) else json.dumps(value, ensure_ascii=False)


def _uniform(values: Sequence[object]) -> list[object]:
    """Values of one kind, as a column needs them: those of several kinds, and what has parts, as text."""
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int, float} or (len(kinds) == 1 and kinds <= {str, bool}):
        return [
            float(value) if kinds == {int, float} and isinstance(value, int) else value for value in values
        ]
    return [value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for value in values]
