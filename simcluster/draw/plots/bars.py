"""Stacked bars: of what something is made, beside each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from simcluster.draw.plots.figure import new_figure, plotly_objects
from simcluster.draw.tone import BarPart


def stacked_bars_plot(
    bars: Sequence[tuple[str, Sequence[BarPart]]],
    reading: Callable[[float], str],
    title: str,
    *,
    x: str = "",
) -> Any:
    """A bar for each (name, parts), from the top; ``reading`` tells a value on hover."""
    figure = new_figure(title, height=160 + 34 * len(bars), x=x)
    names = [name for name, _ in bars]
    tones = {part.name: part.tone for _, parts in bars for part in parts}
    for part_name, tone in tones.items():
        values = [sum(part.value for part in parts if part.name == part_name) for _, parts in bars]
        figure.add_trace(
            plotly_objects().Bar(
                y=names,
                x=values,
                name=part_name,
                orientation="h",
                marker={"color": tone.colour},
                text=[reading(value) for value in values],
                textposition="none",
                hovertemplate=f"%{{y}}<br>{part_name}: %{{text}}<extra></extra>",
            )
        )
    figure.update_layout(barmode="stack")
    figure.update_yaxes(autorange="reversed")
    return figure
