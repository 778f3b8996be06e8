"""The rows of a sweep: which is best, which are on the Pareto front, and as which tables they are given."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simcluster.draw import csv_text
from simcluster.sweeps.figures import CAPACITY, MEMORY, SweepFigure, time_figure
from simcluster.sweeps.point import Row
from simcluster.sweeps.variation import SweepSpace
from simcluster.trace import write_file

if TYPE_CHECKING:
    import polars


@dataclass(frozen=True)
class SweepResult:
    """What a sweep gives: ``points`` are (number of the combination, its row), in order.

    ``print`` shows the table with the best first, a notebook the plot and the table. ``rows`` are plain
    dictionaries: the values of keys that vary, ``best``, ``pareto``, ``verdict`` (fits, tight, does not fit,
    impossible, failed, lost), ``fits``, ``reason``, and the figures, None where there are none.
    """

    name: str
    space: SweepSpace
    objective: SweepFigure
    figures: tuple[SweepFigure, ...]
    points: tuple[tuple[int, Row], ...]

    @property
    def columns(self) -> list[str]:
        """The names of the columns of ``rows``."""
        keys = [variation.key for variation in self.space.variations]
        return [*keys, "best", "pareto", "verdict", "fits", "reason", *(f.column for f in self.figures)]

    @cached_property
    def rows(self) -> list[Row]:
        """A dictionary for each point, in the order of the cross product."""
        empty = dict.fromkeys(figure.column for figure in self.figures)
        rows = []
        for point, row in self.points:
            marks = {"best": point == self.best_point, "pareto": point in self.front}
            stated = {name: row[name] for name in ("verdict", "fits", "reason")}
            figures = {name: row.get(name) for name in empty}
            rows.append({**self.space.values(point), **marks, **stated, **figures})
        return rows

    @property
    def best(self) -> Row | None:
        """The best row that fits, by the objective; of equal ones the first; None if nothing fits."""
        return next((row for row in self.rows if row["best"]), None)

    @property
    def pareto(self) -> list[Row]:
        """The rows that fit and that no other beats in the objective and in memory both, fastest first."""
        by_point = dict(zip((point for point, _ in self.points), self.rows, strict=True))
        return [by_point[point] for point in self.front]

    @property
    def has_room(self) -> bool:
        """Whether some point fits, or is tight."""
        return any(row["verdict"] in ("fits", "tight") for _, row in self.points)

    @property
    def capacity(self) -> int | None:
        """Bytes of the fullest device, where it is one with as much memory in all points."""
        capacities = {row[CAPACITY.column] for _, row in self.points if row.get(CAPACITY.column) is not None}
        return capacities.pop() if len(capacities) == 1 else None

    @cached_property
    def ranked(self) -> list[int]:
        """Places in ``points``, best first: those that fit, those that do not, those without figures."""

        def rank(place: int) -> tuple[bool, bool, float, int]:
            _, row = self.points[place]
            value = row.get(self.objective.column)
            return not row["fits"], value is None, 0.0 if value is None else self.objective.cost(value), place

        return sorted(range(len(self.points)), key=rank)

    @cached_property
    def best_point(self) -> int | None:
        """The number of the best combination."""
        if not self.ranked:
            return None
        point, row = self.points[self.ranked[0]]
        return point if row["fits"] else None

    @cached_property
    def front(self) -> tuple[int, ...]:
        """The combinations of the Pareto front, fastest first."""
        figure = time_figure(self.objective, self.figures)
        fitting = [
            (figure.cost(row[figure.column]), row[MEMORY.column], point)
            for point, row in self.points
            if row["fits"]
        ]
        front, least = [], float("inf")
        for _, memory, point in sorted(fitting):
            if memory < least:
                front.append(point)
                least = memory
        return tuple(front)

    def document(self) -> dict[str, Any]:
        """All of it as JSON-able data, in SI units."""
        return {
            "name": self.name,
            "vary": {variation.key: list(variation.values) for variation in self.space.variations},
            "objective": self.objective.column,
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

        whole = ("num_ranks", "peak_memory_bytes", "memory_capacity_bytes")
        kinds: dict[str, Any] = {
            figure.column: polars.Int64 if figure.column in whole else polars.Float64
            for figure in self.figures
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
        from simcluster.sweeps.plot_page import sweep_page

        page = sweep_page(self)
        if path is not None:
            write_file(path, [page.encode()])
        return page

    def __str__(self) -> str:
        from simcluster.sweeps.table import sweep_text

        return sweep_text(self)

    def __repr__(self) -> str:
        return f"SweepResult: {self.name}, {len(self.points)} of {self.space.num_points} points"

    def _repr_html_(self) -> str:
        from simcluster.sweeps.plot_page import sweep_html

        return sweep_html(self)


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
