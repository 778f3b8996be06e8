"""A collective's rates and times over sizes as a page: two plots and the table, nothing from outside."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from itertools import pairwise
from math import ceil, floor, log2, log10

from simcluster import units
from simcluster.collectives import BenchmarkRow
from simcluster.deferred_dataclass import dataclass
from simcluster.draw import (
    BLUE,
    FONT,
    GREEN,
    LIMIT,
    ORANGE,
    PINK,
    PURPLE,
    RED,
    TEAL,
    YELLOW,
    Canvas,
    Markup,
    Tone,
    html_legend,
    html_page,
    html_table,
    section,
)
from simcluster.listings import CollectiveBenchmark, bench_rows, describe_group

WIDTH, HEIGHT = 960.0, 330.0
LEFT, RIGHT, TOP, BOTTOM = 76.0, 16.0, 14.0, 30.0
POINT = 7.0
"""The side of a point, in pixels."""

_TONES = (BLUE, ORANGE, GREEN, PURPLE, TEAL, RED, YELLOW, PINK)
_LATENCY = "#808890"

_Way = tuple[str, str]


def bench_page(bench: CollectiveBenchmark) -> str:
    """The page, whole."""
    tones = _tones(bench)
    columns, rows = bench_rows(bench)
    title = describe_group(bench)
    style = f"max-width:{WIDTH:.0f}px;margin:24px auto;padding:0 12px;font-size:13px;line-height:1.45;{FONT}"
    legend = html_legend([(" ".join(way), tone) for way, tone in tones.items()])
    head = f'<h1 style="font-size:18px">{escape(title)}</h1>'
    sized = [row for row in bench.rows if row.busbw > 0]
    parts = [head, legend]
    if sized:
        note = "both axes logarithmic; red: what the links would give without latency"
        parts.append(section("Bus bandwidth", note, _rates(sized, tones)))
    note = "both axes logarithmic; grey: the latency in it, in which no bytes flow"
    parts.append(section("Time", note, _times(bench.rows, tones)))
    table = f'<div style="overflow-x:auto">{html_table(columns, rows)}</div>'
    return html_page(title, style, "".join([*parts, table]))


def link_limit(row: BenchmarkRow) -> float:
    """The bus bandwidth in bytes/s that the links give a size's algorithm and protocol: without latency."""
    return row.busbw * row.seconds / row.choice.transfer if row.choice.transfer else 0.0


def _tones(bench: CollectiveBenchmark) -> dict[_Way, Tone]:
    """A tone for each algorithm and protocol, in the order in which they appear."""
    ways = dict.fromkeys((row.choice.algorithm, row.choice.protocol) for row in bench.rows)
    return {way: _TONES[number % len(_TONES)] for number, way in enumerate(ways)}


def _rates(rows: Sequence[BenchmarkRow], tones: Mapping[_Way, Tone]) -> Markup:
    plot = _Plot(rows, [row.busbw * 1e-9 for row in rows], [link_limit(row) * 1e-9 for row in rows])
    return plot.drawn("bus bandwidth by size", LIMIT, tones, _rate)


def _rate(gigabytes: float) -> str:
    return f"{gigabytes:,.0f} GB/s" if gigabytes >= 100 else f"{gigabytes:.3g} GB/s"


def _times(rows: Sequence[BenchmarkRow], tones: Mapping[_Way, Tone]) -> Markup:
    plot = _Plot(rows, [row.seconds * 1e6 for row in rows], [row.choice.latency * 1e6 for row in rows])
    return plot.drawn("time by size", _LATENCY, tones, lambda value: units.seconds(value * 1e-6))


@dataclass(frozen=True)
class _Plot:
    """A value for each size, and beside it a second one, which is a line where it is above zero."""

    rows: Sequence[BenchmarkRow]
    values: Sequence[float]
    others: Sequence[float]

    def drawn(
        self, title: str, colour: str, tones: Mapping[_Way, Tone], reading: Callable[[float], str]
    ) -> Markup:
        canvas = Canvas(WIDTH, HEIGHT, title)
        positive = [value for value in (*self.values, *self.others) if value > 0] or [1.0]
        low = floor(log10(min(positive)))
        high = max(ceil(log10(max(positive))), low + 1)
        sizes = [log2(max(1.0, row.num_bytes)) for row in self.rows]
        first, span = min(sizes), max(max(sizes) - min(sizes), 1.0)
        across, up = (WIDTH - LEFT - RIGHT - 2 * POINT) / span, (HEIGHT - TOP - BOTTOM) / (high - low)

        def at(size: float, value: float) -> tuple[float, float]:
            return LEFT + POINT + (size - first) * across, HEIGHT - BOTTOM - (log10(value) - low) * up

        for power in range(low, high + 1):
            y = at(first, 10.0**power)[1]
            canvas.line(LEFT, y, WIDTH - RIGHT, y)
            canvas.text(LEFT - 8, y + 4, reading(10.0**power), anchor="end", faint=True)
        every = max(1, -(-len(sizes) // 10))
        for size, row in [*zip(sizes, self.rows, strict=True)][::every]:
            x = at(size, 10.0**low)[0]
            canvas.text(x, HEIGHT - 10, units.size(row.num_bytes), anchor="middle", faint=True)
        line = [at(size, value) for size, value in zip(sizes, self.others, strict=True) if value > 0]
        for (x1, y1), (x2, y2) in pairwise(line):
            canvas.line(x1, y1, x2, y2, strong=True, colour=colour)
        points = [at(size, value) for size, value in zip(sizes, self.values, strict=True)]
        for (x1, y1), (x2, y2) in pairwise(points):
            canvas.line(x1, y1, x2, y2)
        for (x, y), row, value, other in zip(points, self.rows, self.values, self.others, strict=True):
            way = (row.choice.algorithm, row.choice.protocol)
            said = f"{units.size(row.num_bytes)}: {reading(value)}, {' '.join(way)}; line: {reading(other)}"
            canvas.rect(x - POINT / 2, y - POINT / 2, POINT, POINT, tones[way].colour, said)
        return Markup(f'<div style="overflow-x:auto">{canvas.render()}</div>')
