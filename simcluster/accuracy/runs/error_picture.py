"""Measured against predicted figures of runs as a page: one point per row, with its name."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from html import escape

from simcluster import units
from simcluster.accuracy.runs.predict import RunFigure, RunPrediction
from simcluster.accuracy.runs.report import figure_text, run_errors_by_group
from simcluster.accuracy.summary import FIGURES
from simcluster.draw import Markup, html_page, html_table, quantities, section

_SIZE, _MARGIN = 720.0, 64.0
_COLOURS = (
    "#1f77b4",
    "#d62728",
    "#2ca02c",
    "#9467bd",
    "#8c564b",
    "#e377c2",
    "#7f7f7f",
    "#bcbd22",
    "#17becf",
    "#ff7f0e",
)
_STYLE = f"margin:24px auto;max-width:{_SIZE:g}px"


def runs_html(predictions: Sequence[RunPrediction]) -> str:
    """A page with a picture for every figure that is predicted, and the table of errors by publisher.

    On the line predictions are right; between the dashed ones they are within a tenth.
    """
    done = [prediction for prediction in predictions if not prediction.reason]
    groups = sorted({prediction.row.group for prediction in done})
    colours = {group: _COLOURS[place % len(_COLOURS)] for place, group in enumerate(groups)}
    parts = []
    for figure in (RunFigure.STEP, RunFigure.MEMORY, RunFigure.ACTIVATIONS):
        points = [prediction for prediction in done if prediction.figure is figure]
        if points:
            note = (
                f"{len(points):,} runs, a point each: rest the pointer on one to see its name. On the line "
                "predictions are exact; between the dashed lines they are within 10 %"
            )
            title = f"Measured and predicted {figure}"
            parts.append(
                section(title, note, Markup(_legend(points, colours)), Markup(_plot(points, colours)))
            )
    lines = [
        [name, str(figure), *errors.cells] for (name, figure), errors in run_errors_by_group(done).items()
    ]
    table = html_table(["runs", "figure", *quantities(*FIGURES)], lines)
    parts.append(section("Errors", "predicted / measured - 1; bias: the median error with its sign", table))
    title = "Predicted against measured runs"
    return html_page(title, _STYLE, f'<h1 style="font-size:18px">{title}</h1>' + "".join(parts))


def _legend(points: Sequence[RunPrediction], colours: dict[str, str]) -> str:
    named = sorted({point.row.group for point in points})
    entries = (
        f'<span style="margin-right:14px;white-space:nowrap">'
        f'<span style="color:{colours[group]}">&#9679;</span> {escape(group)}</span>'
        for group in named
    )
    return f'<p style="margin:4px 0">{" ".join(entries)}</p>'


def _plot(points: Sequence[RunPrediction], colours: dict[str, str]) -> str:
    """A square of two logarithmic axes."""
    values = [value for point in points for value in (point.measured, point.predicted)]
    low, high = math.log10(min(values)) - 0.05, math.log10(max(values)) + 0.05

    def at(value: float) -> float:
        return _MARGIN + (math.log10(value) - low) / (high - low) * (_SIZE - 2 * _MARGIN)

    return "".join(
        (
            f'<svg viewBox="0 0 {_SIZE:g} {_SIZE:g}" role="img" aria-label="measured against predicted" '
            'style="max-width:100%;height:auto">',
            *_axes(points[0].figure, low, high, at(10**low), at(10**high), at),
            *(_point(point, at(point.measured), _SIZE - at(point.predicted), colours) for point in points),
            "</svg>",
        )
    )


def _axes(
    figure: RunFigure, low: float, high: float, first: float, last: float, at: Callable[[float], float]
) -> Iterator[str]:
    line = '<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" stroke="{}" stroke-dasharray="{}"/>'
    for factor, dashes in ((1.0, "0"), (1.1, "4 4"), (1 / 1.1, "4 4")):
        shift = at(factor * 10**low) - at(10**low)
        yield line.format(first, _SIZE - first - shift, last, _SIZE - last - shift, "#888", dashes)
    for power in range(math.ceil(low), math.floor(high) + 1):
        place, text = at(10.0**power), escape(figure_text(figure, 10.0**power))
        yield line.format(place, _SIZE - first, place, _SIZE - last, "#8884", "0")
        yield line.format(first, _SIZE - place, last, _SIZE - place, "#8884", "0")
        yield _text(place, _SIZE - first + 18, text)
        yield _text(first - 6, _SIZE - place + 4, text, anchor="end")
    middle = (first + last) / 2
    yield _text(middle, _SIZE - 12, "measured")
    yield _text(14, middle, "predicted", turned=True)


def _text(x: float, y: float, text: str, *, anchor: str = "middle", turned: bool = False) -> str:
    turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turned else ""
    place = f'x="{x:.1f}" y="{y:.1f}" font-size="12" fill="currentColor" text-anchor="{anchor}"'
    return f"<text {place}{turn}>{text}</text>"


def _point(point: RunPrediction, x: float, y: float, colours: dict[str, str]) -> str:
    words = point.row.words
    figures = (figure_text(point.figure, value) for value in (point.measured, point.predicted))
    measured, predicted = figures
    told = f"{point.row.name}: {words['model']} on {point.row.count('num_devices')} x {words['hardware']}; "
    told += f"measured {measured}, predicted {predicted} ({units.signed_percent(point.error)})"
    colour = colours[point.row.group]
    look = f'r="4" fill="{colour}" fill-opacity=".65"'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" {look}><title>{escape(told)}</title></circle>'
