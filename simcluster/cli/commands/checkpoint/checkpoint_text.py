"""Tables of ``simcluster checkpoint``."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group
from rich.text import Text

from simcluster import units
from simcluster.draw import Column, render_text, screen_width, text_table
from simcluster.errors import ScenarioError
from simcluster.job import best_interval, daly_interval, expected_waste, young_interval


def rows_text(title: str, rows: Sequence[tuple[str, str]], *, colour: bool = False) -> str:
    """A title, and under it rows of what and how much."""
    table = text_table([Column(style="dim"), Column(wraps=True)], rows, indent=2)
    return render_text(Group(Text(title, "bold"), table), width=screen_width(None), colour=colour)


def interval_text(save: str, mtbf: str, restart: str, background: str, *, colour: bool = False) -> str:
    """Intervals by formula, and the part of the time that each wastes; ScenarioError for no times."""
    cost, mean, again = _time("--save", save), _time("--mtbf", mtbf), _time("--restart", restart)
    beside = _time("--background", background)
    if not cost or not mean:
        raise ScenarioError("--save and --mtbf are longer than no time")
    rows = [
        (name, units.seconds(length), units.percent(expected_waste(length, cost, again, mean, beside)))
        for name, length in (
            ("Young 1974", young_interval(cost, mean)),
            ("Daly 2006", daly_interval(cost, mean)),
            ("least waste", best_interval(cost, mean, beside)),
        )
    ]
    columns = [Column("Interval of work"), Column("save every", quantity=True), Column("lost", quantity=True)]
    note = Text(
        "Lost time is everything but progress: saves, repeated work, restarts; failures come at random, "
        "in restarts too (Daly's expected time).",
        "dim",
    )
    return render_text(Group(text_table(columns, rows), "", note), width=screen_width(None), colour=colour)


def _time(option: str, text: str) -> float:
    try:
        return units.parse(text, units.Dimension.TIME, "40 s")
    except ValueError as error:
        raise ScenarioError(f"{option} {text}: {error}") from None
