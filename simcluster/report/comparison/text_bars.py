"""A comparison as text: one screen with what each plan gains in time and memory, and what it loses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from simcluster import units
from simcluster.draw import (
    Cell,
    Column,
    quantities,
    render_text,
    screen_width,
    sum_of_parts,
    text_bar,
    text_table,
)
from simcluster.report.comparison.comparison import Comparison, FigureRow, Side, Trade, signed
from simcluster.report.content import emphasised_verdict, verdict_text


def comparison_text(
    comparison: Comparison, *, width: int | None = None, colour: bool = False, details: bool = False
) -> str:
    """A comparison as text, at most ``width`` columns wide (default: the terminal's, up to 120).

    ``details``: also each change by a framework profile that the others do not make, not their number alone.
    """
    columns = screen_width(width)
    return render_text(Group(*_parts(comparison, columns, colour, details)), width=columns, colour=colour)


def _verdict(side: Side) -> Text:
    """Nothing for what fits."""
    said = verdict_text(side.summary)
    if said == "fits":
        return Text("")
    return Text(emphasised_verdict(side.summary), "bold yellow" if said == "tight" else "bold red")


def _parts(comparison: Comparison, width: int, colour: bool, details: bool) -> Iterator[RenderableType]:
    rows: list[list[Cell]] = [[side.letter, side.name, _verdict(side)] for side in comparison.sides]
    yield text_table([Column(style="bold"), Column(wraps=True), Column()], rows)
    yield ""
    for trade in comparison.trades:
        yield from describe_trade(trade, comparison.sides[0])
    for caveat in comparison.caveats:
        yield Text(f"Note: {caveat}", "yellow")
    yield ""
    if comparison.differences:
        differing = _differences(comparison, details)
        yield text_table([Column("What differs"), Column(), Column(wraps=True)], differing)
        yield ""
    yield _figures("Figures", comparison, comparison.figures)
    yield ""
    yield _figures("Where the step goes", comparison, comparison.step, colour=colour, tones=True)
    yield _bars(comparison, comparison.step, width, colour)
    yield ""
    if comparison.has_jobs:
        title = "Where the time of the job goes"
        yield _figures(title, comparison, comparison.job, colour=colour, tones=True)
        yield _bars(comparison, comparison.job, width, colour)
        yield ""
    yield from _causes(comparison)
    yield _figures("Memory of the fullest device", comparison, comparison.memory, colour=colour, tones=True)
    limits = [float(side.fullest["capacity"]) for side in comparison.sides]
    yield _bars(comparison, comparison.memory, width, colour, limits)


def _causes(comparison: Comparison) -> Iterator[RenderableType]:
    """What makes each side's step another one than the first's, by name."""
    first = comparison.sides[0]
    for side, causes in zip(comparison.sides[1:], comparison.causes, strict=True):
        if not causes:
            continue
        rows: list[list[Cell]] = [
            [
                f"  {cause.name}",
                *(units.seconds(spent) if spent else "-" for spent in (cause.before, cause.after)),
                Text(signed(cause.change, units.seconds), "bold"),
            ]
            for cause in causes
        ]
        title = f"Why the step of {side.letter} differs"
        titles = quantities(first.letter, side.letter, f"{side.letter} - {first.letter}")
        yield text_table([Column(title, wraps=True), *titles], rows)
        yield ""


def describe_trade(trade: Trade, first: Side) -> Iterator[RenderableType]:
    """A trade in words: the speed, then what is less and what is more."""
    side = trade.side
    (what, step), (_, before) = side.spent, first.spent
    more = signed(side.fullest["total"] - first.fullest["total"], units.size)
    yield Text.assemble(
        (f"{side.letter}: {trade.speed:.2f} x", "bold cyan"),
        f" the speed of {first.letter} ({what} {units.seconds(before)} -> {units.seconds(step)}), memory ",
        (more, "bold cyan"),
        f" ({units.percent(side.fullest['total'] / side.fullest['capacity'])} of the fullest device)",
    )
    for sentence in trade.sentences:
        yield Padding(Text(sentence), (0, 0, 0, 3), expand=False)


def _differences(comparison: Comparison, details: bool) -> Iterator[Sequence[Cell]]:
    for label, own in comparison.differences:
        for side, listed in zip(comparison.sides, own, strict=True):
            number = listed.count("; ") + 1
            counted = label == "framework" and number > 1 and not details
            text = f"{side.documents['plan']['framework']} makes {number} changes of its own; -v lists them"
            text = text if counted else listed
            yield ("  " + label if side is comparison.sides[0] else "", side.letter, text or Text("-", "dim"))


def _figures(
    title: str,
    comparison: Comparison,
    rows: Sequence[FigureRow],
    *,
    colour: bool = False,
    tones: bool = False,
) -> RenderableType:
    """A row per figure: what every side has, and how much more than the first."""
    cells = []
    for row in rows:
        tone = row.parts[0].tone if tones else None
        head = Text("  ").append(f"{tone.fill(colour)} ", tone.style) if tone else Text("  ")
        line: list[Cell] = [head.append(row.name), row.reading(row.values[0])]
        for index in range(1, len(comparison.sides)):
            line += [row.reading(row.values[index]), Text(row.change(index), "bold")]
        cells.append(line)
    return text_table(comparison.columns(title), cells)


def _bars(
    comparison: Comparison, rows: Sequence[FigureRow], width: int, colour: bool, limits: Sequence[float] = ()
) -> RenderableType:
    """A bar for each side, all to one scale; with ``limits``, against what it must not pass."""
    sides = [[row.parts[index] for row in rows] for index in range(len(comparison.sides))]
    scale = max(*map(sum_of_parts, sides), *limits)
    lines: list[Sequence[Cell]] = []
    for index, side in enumerate(comparison.sides):
        limit = limits[index] if limits else None
        drawn = text_bar(sides[index], width - 4, scale=scale, limit=limit, colour=colour)
        lines.append([side.letter, drawn])
    return text_table([Column(style="bold"), Column()], lines)
