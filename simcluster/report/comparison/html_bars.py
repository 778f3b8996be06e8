"""A comparison as HTML: the bars of all plans below one another, to one scale, and their figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape

from simcluster import units
from simcluster.draw import (
    FONT,
    LIMIT,
    Markup,
    Stack,
    html_legend,
    html_page,
    html_table,
    quantities,
    section,
    stacked_bars_svg,
    swatch,
)
from simcluster.report.comparison.causes import StepCause
from simcluster.report.comparison.comparison import Comparison, FigureRow, Side, Trade, signed
from simcluster.report.content import NEAR, emphasised_verdict, job_parts, verdict_text

WIDTH = 960


def comparison_html(comparison: Comparison) -> str:
    """A comparison as one ``div``, at most 960 pixels wide, without scripts or anything from outside."""
    body = "".join(_sections(comparison))
    style = f"max-width:{WIDTH}px;font-size:13px;line-height:1.45;color:inherit;background:none;{FONT}"
    return f'<div style="{style}">{body}</div>'


def comparison_page(comparison: Comparison) -> str:
    """The same as a page for a browser."""
    title = " | ".join(side.name for side in comparison.sides)
    return html_page(title, f"margin:24px auto;max-width:{WIDTH}px", comparison_html(comparison))


def _jobs(comparison: Comparison) -> Iterator[Markup]:
    """Where the time of all jobs goes, to one scale."""
    jobs = [(side.letter, side.documents["job"]) for side in comparison.sides if "job" in side.documents]
    if not jobs:
        return
    bars = [
        Stack(f"{letter} {job['policy']}", job_parts(job), f"goodput {units.percent(job['goodput'])}")
        for letter, job in jobs
    ]
    legend = dict.fromkeys((part.name, part.tone) for bar in bars for part in bar.parts)
    yield section(
        "Where the time of the jobs goes",
        "by recovery policy, all to one scale",
        html_legend(legend),
        Markup(stacked_bars_svg(bars, units.seconds, width=WIDTH)),
    )


def _verdict(side: Side) -> Markup:
    """Nothing for what fits."""
    said = verdict_text(side.summary)
    if said == "fits":
        return Markup("")
    colour = NEAR if said == "tight" else LIMIT
    return Markup(f'<b style="color:{colour}">{emphasised_verdict(side.summary)}</b>')


def _sections(comparison: Comparison) -> Iterator[Markup]:
    rows = [[Markup(f"<b>{side.letter}</b>"), side.name, _verdict(side)] for side in comparison.sides]
    yield html_table(["", "", ""], rows)
    yield Markup("".join(_trade_html(comparison, trade) for trade in comparison.trades))
    for caveat in comparison.caveats:
        yield Markup(f'<div style="opacity:.7">Note: {escape(caveat)}</div>')
    steps = [side.summary["step_time_s"] for side in comparison.sides]
    yield section(
        "Where the step goes",
        "mean over ranks, all to one scale",
        *_bars(
            comparison,
            comparison.step,
            units.seconds,
            [units.seconds(step) for step in steps],
            [None] * len(steps),
        ),
        _table(comparison, comparison.step),
    )
    for side, causes in zip(comparison.sides[1:], comparison.causes, strict=True):
        if causes:
            yield section(f"Why the step of {side.letter} differs", "", _causes(comparison, side, causes))
    peaks = [side.fullest for side in comparison.sides]
    notes = [f"{units.size(peak['total'])}, {100 * peak['total'] / peak['capacity']:.0f} %" for peak in peaks]
    yield section(
        "Memory of the fullest device",
        "at its peak, against its capacity",
        *_bars(comparison, comparison.memory, units.size, notes, [float(peak["capacity"]) for peak in peaks]),
        _table(comparison, comparison.memory),
    )
    yield from _jobs(comparison)
    yield section("Figures", "", _table(comparison, comparison.figures))
    if comparison.differences:
        yield section("What differs", "", html_table(["", "", ""], list(_differences(comparison))))


def _causes(comparison: Comparison, side: Side, causes: Sequence[StepCause]) -> Markup:
    """What takes more and less than in the first, by name."""
    first = comparison.sides[0]
    rows = [
        [
            cause.name,
            *(units.seconds(spent) if spent else "-" for spent in (cause.before, cause.after)),
            Markup(f"<b>{escape(signed(cause.change, units.seconds))}</b>"),
        ]
        for cause in causes
    ]
    titles = quantities(first.letter, side.letter, f"{side.letter} - {first.letter}")
    return html_table(["", *titles], rows)


def _trade_html(comparison: Comparison, trade: Trade) -> str:
    """The trade in large figures, then what is less and what is more."""
    first, side = comparison.sides[0], trade.side
    what, seconds = side.spent
    step = signed(seconds - first.spent[1], units.seconds)
    memory = signed(side.fullest["total"] - first.fullest["total"], units.size)
    figures = (
        (f"{trade.speed:.2f} x", f"the speed of {first.letter}"),
        (step, f"{what} time"),
        (memory, "peak memory of the fullest device"),
    )
    tiles = "".join(
        f'<div style="margin:0 28px 0 0"><div style="font-size:21px;font-weight:600">{escape(value)}</div>'
        f'<div style="font-size:12px;opacity:.7">{escape(label)}</div></div>'
        for value, label in figures
    )
    lines = "".join(f"<div>{escape(line)}</div>" for line in trade.sentences)
    head = f'<div style="font-size:21px;font-weight:600;margin:0 18px 0 0">{side.letter}</div>'
    return f'<div style="display:flex;flex-wrap:wrap;margin:10px 0 4px">{head}{tiles}</div>{lines}'


def _bars(
    comparison: Comparison,
    rows: Sequence[FigureRow],
    reading: Callable[[float], str],
    notes: Sequence[str],
    limits: Sequence[float | None],
) -> Iterator[Markup]:
    bars = [
        Stack(side.letter, [row.parts[index] for row in rows], notes[index], limits[index])
        for index, side in enumerate(comparison.sides)
    ]
    yield html_legend((row.name, row.parts[0].tone) for row in rows)
    yield Markup(stacked_bars_svg(bars, reading, width=WIDTH))


def _table(comparison: Comparison, rows: Sequence[FigureRow]) -> Markup:
    """A row per figure: what every side has, and how much more than the first."""
    lines = []
    for row in rows:
        mark = f"{swatch(row.parts[0].tone)} " if row.parts else ""
        line = [Markup(f"{mark}{escape(row.name)}"), row.reading(row.values[0])]
        for index in range(1, len(comparison.sides)):
            line += [row.reading(row.values[index]), Markup(f"<b>{escape(row.change(index))}</b>")]
        lines.append(line)
    return html_table(comparison.columns(), lines)


def _differences(comparison: Comparison) -> Iterator[list[str]]:
    for label, own in comparison.differences:
        for side, text in zip(comparison.sides, own, strict=True):
            yield [label if side is comparison.sides[0] else "", side.letter, text or "-"]
