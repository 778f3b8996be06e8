"""Boxes in rows, and lines between them: a graph in tiers, to look around in."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from simcluster.draw.plots.figure import new_figure, plotly_objects
from simcluster.draw.tier_diagram import BoxRow, Connection

_MOST_LABELS = 17
"""Boxes of a row that have room for their labels."""


def tiers_plot(rows: Sequence[BoxRow], lines: Sequence[Connection], title: str) -> Any:
    """The rows from top to bottom; what a box or a line is, its tooltip says."""
    figure = new_figure(title, height=110 + 74 * len(rows))
    place: dict[Hashable, tuple[float, float]] = {}
    for level, row in enumerate(rows):
        for number, box in enumerate(row.boxes):
            place[box.key] = (number + 0.5) / len(row.boxes), -float(level)
    objects = plotly_objects()
    drawn = [line for line in lines if line.one in place and line.other in place]
    for line in drawn:
        (x1, y1), (x2, y2) = place[line.one], place[line.other]
        figure.add_shape(
            type="line",
            x0=x1,
            y0=y1,
            x1=x2,
            y1=y2,
            layer="below",
            line={"width": line.weight, "color": "#d93f3f" if line.strong else "rgba(128,136,144,.55)"},
        )
    middles = [
        [(one + other) / 2 for one, other in zip(place[line.one], place[line.other], strict=True)]
        for line in drawn
    ]
    figure.add_trace(
        objects.Scatter(
            x=[x for x, _ in middles],
            y=[y for _, y in middles],
            mode="markers",
            marker={"size": 9, "color": "rgba(128,136,144,.01)"},
            text=[line.title.replace("\n", "<br>") for line in drawn],
            hovertemplate="%{text}<extra></extra>",
        )
    )
    for row in rows:
        boxes = row.boxes
        figure.add_trace(
            objects.Scatter(
                x=[place[box.key][0] for box in boxes],
                y=[place[box.key][1] for box in boxes],
                mode="markers+text" if len(boxes) <= _MOST_LABELS else "markers",
                marker={
                    "symbol": "square",
                    "size": 16,
                    "color": [box.tone.colour for box in boxes],
                    "line": {"width": 0},
                },
                text=[box.short or box.label for box in boxes],
                textposition="bottom center",
                textfont={"size": 9},
                customdata=[box.title or box.label for box in boxes],
                hovertemplate="%{customdata}<extra></extra>",
            )
        )
    ticks = [f"{row.name}<br>{row.more}" if row.more else row.name for row in rows]
    figure.update_layout(showlegend=False, margin={"b": 20})
    figure.update_xaxes(visible=False, range=[0, 1])
    figure.update_yaxes(
        tickvals=[-level for level in range(len(rows))],
        ticktext=ticks,
        range=[-len(rows) + 0.5, 0.5],
        showgrid=False,
        zeroline=False,
    )
    return figure
