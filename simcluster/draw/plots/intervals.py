"""Intervals of time in rows: timelines and grids of schedules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from simcluster.deferred_dataclass import dataclass
from simcluster.draw.plots.figure import new_figure, plotly_objects
from simcluster.draw.tone import Tone


@dataclass(frozen=True, slots=True)
class Interval:
    """Something in a row from ``start`` to ``end``: what it is called, its kind, which has a tone."""

    row: str
    start: float
    end: float
    label: str
    kind: str
    tone: Tone


def intervals_plot(
    intervals: Sequence[Interval],
    title: str,
    *,
    x: str,
    reading: Callable[[float], str],
    labelled: bool = False,
) -> Any:
    """A row for each name, in order from the top, with its intervals; zoom by dragging.

    ``reading`` tells times on hover; with ``labelled`` the labels stand in the intervals.
    """
    rows = list(dict.fromkeys(interval.row for interval in intervals))
    figure = new_figure(title, height=150 + 26 * len(rows), x=x)
    for kind in dict.fromkeys(interval.kind for interval in intervals):
        shown = [interval for interval in intervals if interval.kind == kind]
        figure.add_trace(
            plotly_objects().Bar(
                y=[interval.row for interval in shown],
                x=[interval.end - interval.start for interval in shown],
                base=[interval.start for interval in shown],
                name=kind,
                orientation="h",
                marker={"color": shown[0].tone.colour, "line": {"width": 0}},
                width=0.82,
                text=[interval.label for interval in shown],
                textposition="inside" if labelled else "none",
                insidetextanchor="middle",
                textfont={"size": 9, "color": "#16181b"},
                customdata=[
                    f"{reading(interval.start)} + {reading(interval.end - interval.start)}"
                    for interval in shown
                ],
                hovertemplate="%{y}<br>%{text}<br>%{customdata}<extra></extra>",
            )
        )
    categories = {"categoryorder": "array", "categoryarray": rows, "autorange": "reversed"}
    figure.update_layout(barmode="overlay", bargap=0.1)
    figure.update_yaxes(**categories)
    return figure
