"""A collective's rates over sizes as a page: a plot and the table, nothing from outside, no scripts."""

from __future__ import annotations

from html import escape
from math import log2

from simcluster import units
from simcluster.draw import (
    BLUE,
    FONT,
    GREEN,
    ORANGE,
    PINK,
    PURPLE,
    RED,
    TEAL,
    YELLOW,
    Canvas,
    Tone,
    html_legend,
    html_page,
    html_table,
    ticks,
)
from simcluster.listings import CollectiveBenchmark, bench_rows, describe_group

WIDTH, HEIGHT = 960.0, 380.0
LEFT, RIGHT, TOP, BOTTOM = 64.0, 16.0, 16.0, 44.0

_TONES = (BLUE, ORANGE, GREEN, PURPLE, TEAL, RED, YELLOW, PINK)


def bench_page(bench: CollectiveBenchmark) -> str:
    """The page, whole."""
    tones = _tones(bench)
    columns, rows = bench_rows(bench)
    title = describe_group(bench)
    style = f"max-width:{WIDTH:.0f}px;margin:24px auto;font-size:13px;line-height:1.45;{FONT}"
    legend = html_legend([(" ".join(way), tone) for way, tone in tones.items()])
    head = f'<h1 style="font-size:18px">{escape(title)}</h1>'
    return html_page(title, style, f"{head}{_plot(bench, tones)}{legend}{html_table(columns, rows)}")


def _tones(bench: CollectiveBenchmark) -> dict[tuple[str, str], Tone]:
    """A tone for each algorithm and protocol, in the order in which they appear."""
    ways = dict.fromkeys((row.choice.algorithm, row.choice.protocol) for row in bench.rows)
    return {way: _TONES[number % len(_TONES)] for number, way in enumerate(ways)}


def _plot(bench: CollectiveBenchmark, tones: dict[tuple[str, str], Tone]) -> str:
    """Busbw over the size, which doubles at equal steps; a bar per size in the tone of its way."""
    canvas = Canvas(WIDTH, HEIGHT, f"busbw of {describe_group(bench)} by size")
    top = max(row.busbw for row in bench.rows) * 1e-9
    marks = ticks(top, 6)
    highest = max(top, marks[-1])
    sizes = [log2(row.num_bytes) for row in bench.rows]
    span = max(1.0, max(sizes) - min(sizes)) + 1
    width = (WIDTH - LEFT - RIGHT) / span

    def height(rate: float) -> float:
        return (HEIGHT - TOP - BOTTOM) * rate / highest if highest else 0.0

    for mark in marks:
        at = HEIGHT - BOTTOM - height(mark)
        canvas.line(LEFT, at, WIDTH - RIGHT, at)
        canvas.text(LEFT - 8, at + 4, f"{mark:g}", anchor="end", faint=True)
    canvas.text(8, TOP, "GB/s", faint=True)
    every = max(1, -(-len(sizes) // 12))
    for number, (row, size) in enumerate(zip(bench.rows, sizes, strict=True)):
        left = LEFT + (size - min(sizes)) * width
        way = (row.choice.algorithm, row.choice.protocol)
        title = f"{units.size(row.num_bytes)}: {row.busbw * 1e-9:,.2f} GB/s, {' '.join(way)}"
        tall = height(row.busbw * 1e-9)
        canvas.rect(left + 1, HEIGHT - BOTTOM - tall, width - 2, tall, tones[way].colour, title)
        if number % every == 0:
            canvas.text(left + width / 2, HEIGHT - BOTTOM + 16, units.size(row.num_bytes), anchor="middle")
    canvas.line(LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT, HEIGHT - BOTTOM, strong=True)
    canvas.text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, "busbw by size", anchor="middle", faint=True)
    return canvas.render()
