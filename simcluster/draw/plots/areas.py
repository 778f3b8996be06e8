"""Stacked levels over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simcluster.draw.area import thin_levels
from simcluster.draw.plots.figure import new_figure, plotly_objects
from simcluster.draw.tone import Tone

MOST_MOMENTS = 500
"""Moments that are drawn: the highest of each equal span of time."""


def areas_plot(
    times: NDArray[np.float64],
    levels: NDArray[np.float64],
    series: Sequence[tuple[str, Tone]],
    reading: Callable[[float], str],
    title: str,
    *,
    end: float,
    limit: float | None = None,
) -> Any:
    """Levels [series, moments] that hold from ``times`` [moments] (seconds) on, the first series lowest.

    Of many moments the highest of each span of time are drawn, and the title says so. ``limit``, which
    ``reading`` tells, is a line above.
    """
    if len(times) > MOST_MOMENTS:
        chosen = np.unique(thin_levels(times, levels, end, MOST_MOMENTS))
        title = f"{title} (the highest moment of each of {MOST_MOMENTS:,} spans of time)"
        times, levels = times[chosen], levels[:, chosen]
    figure = new_figure(title, height=340, x="seconds", y="GiB")
    for (name, tone), level in zip(series, levels, strict=True):
        if level.any():
            figure.add_trace(
                plotly_objects().Scatter(
                    x=times.round(6),
                    y=(level / 2**30).round(6),
                    name=name,
                    mode="lines",
                    stackgroup="memory",
                    line={"shape": "hv", "width": 0.5, "color": tone.colour},
                    hovertemplate=f"%{{x:.4g}} s<br>{name}: %{{y:.3g}} GiB<extra></extra>",
                )
            )
    if limit is not None:
        line = {"color": "#d93f3f", "width": 1.5, "dash": "dash"}
        figure.add_hline(y=limit / 2**30, line=line, annotation_text=f"capacity {reading(limit)}")
    return figure
