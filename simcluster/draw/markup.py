"""HTML from plain columns: styles stand on the elements, so a fragment looks the same wherever it is put."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from simcluster import units
from simcluster.draw.svg import FONT
from simcluster.draw.table_column import Column
from simcluster.draw.tone import Tone

_PLAIN = "border:0;background:none;vertical-align:top"
_FAINT = "opacity:.7"


class Markup(str):
    """HTML that is put in as it is; text of any other kind is escaped."""

    __slots__ = ()


def html(text: str) -> Markup:
    """The text as HTML: itself if it is markup, else escaped."""
    return text if isinstance(text, Markup) else Markup(escape(text))


def html_table(columns: Sequence[Column | str], rows: Iterable[Sequence[str]]) -> Markup:
    """A table without lines in the colours around it; quantities are flush right."""
    wanted = [Column(column) if isinstance(column, str) else column for column in columns]
    sides = ["right" if column.quantity else "left" for column in wanted]
    lines = []
    if any(column.title for column in wanted):
        cells = "".join(
            f'<th style="{_PLAIN};text-align:{side};padding:1px 18px 1px 0;font-weight:600;{_FAINT}">'
            f"{html(column.title)}</th>"
            for column, side in zip(wanted, sides, strict=True)
        )
        lines.append(f'<tr style="background:none">{cells}</tr>')
    for row in rows:
        cells = "".join(
            f'<td style="{_PLAIN};text-align:{side};padding:1px 18px 1px 0;'
            f'{"white-space:nowrap;font-variant-numeric:tabular-nums" if side == "right" else ""}">'
            f"{html(cell)}</td>"
            for cell, side in zip(row, sides, strict=True)
        )
        lines.append(f'<tr style="background:none">{cells}</tr>')
    look = "border-collapse:collapse;table-layout:auto;border:0;margin:2px 0"
    style = f"{look};font-size:inherit;color:inherit;{FONT}"
    return Markup(f'<table style="{style}">{"".join(lines)}</table>')


def swatch(tone: Tone) -> Markup:
    """A small square of a tone, to stand before its name."""
    style = f"display:inline-block;width:.75em;height:.75em;border-radius:2px;background:{tone.colour}"
    return Markup(f'<span style="{style}"></span>')


def html_legend(entries: Iterable[tuple[str, Tone]]) -> Markup:
    """Which colour means what, in a line that wraps."""
    spans = (
        f'<span style="margin-right:14px;white-space:nowrap">{swatch(tone)} {html(name)}</span>'
        for name, tone in entries
    )
    return Markup(f'<div style="margin:2px 0;font-size:12px">{" ".join(spans)}</div>')


def html_bar(entries: Iterable[tuple[str, float, Tone]]) -> Markup:
    """One bar of named shares of a whole, with its legend."""
    told = [(f"{name} {units.percent(share)}", share, tone) for name, share, tone in entries]
    pieces = "".join(
        f'<span style="background:{tone.colour};width:{100 * share:.3f}%" title="{escape(text)}"></span>'
        for text, share, tone in told
    )
    style = "display:flex;height:16px;max-width:960px;margin:4px 0"
    legend = html_legend((text, tone) for text, _, tone in told)
    return Markup(f'<div style="{FONT}"><div style="{style}">{pieces}</div>{legend}</div>')


def preformatted(text: str) -> Markup:
    """Text as it is, in letters of one width."""
    style = "font-size:12px;line-height:1.35;overflow-x:auto;margin:2px 0;color:inherit;background:none"
    return Markup(f'<pre style="{style}">{escape(text)}</pre>')


def html_page(title: str, style: str, body: str) -> str:
    """A whole page for a browser, for light and dark screens; ``style`` is that of its body."""
    look = f"{FONT};font-size:13px;line-height:1.45;padding:0 12px;{style}"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"></head><body style="{look}">{body}</body></html>\n'
    )


def section(title: str, note: str, *parts: Markup) -> Markup:
    """A titled piece of a report."""
    style = "margin:14px 0 2px;font-weight:600"
    faint = f'<span style="font-weight:400;{_FAINT}">{html(note)}</span>'
    return Markup(f'<div style="{style}">{html(title)} &nbsp;{faint}</div>{"".join(parts)}')
