"""Elements of the page: sections, tables that scroll, stacked bars that keep their width in percent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape

from simcluster.draw import BarPart, Column, Markup, Tone, sum_of_parts


def page_section(key: str, title: str, note: str, *parts: str) -> Markup:
    """A section with an anchor; nothing where it has no parts."""
    body = "".join(parts)
    if not body:
        return Markup("")
    said = f'<p class="note">{escape(note)}</p>' if note else ""
    return Markup(
        f'<section id="{key}" aria-labelledby="{key}-title"><h2 id="{key}-title">{escape(title)}</h2>'
        f"{said}{body}</section>"
    )


def text_of(text: str) -> str:
    """A text as HTML; markup as it is."""
    return text if isinstance(text, Markup) else escape(text)


def data_table(columns: Sequence[Column | str], rows: Iterable[Sequence[str]], caption: str = "") -> Markup:
    """A table in a box that scrolls sideways where the page is narrow; nothing without rows."""
    listed = [list(row) for row in rows]
    if not listed:
        return Markup("")
    wanted = [Column(column) if isinstance(column, str) else column for column in columns]
    kinds = [' class="n"' if column.quantity else "" for column in wanted]
    head = "".join(
        f'<th scope="col"{kind}>{text_of(column.title)}</th>'
        for column, kind in zip(wanted, kinds, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(f"<td{kind}>{text_of(cell)}</td>" for cell, kind in zip(row, kinds, strict=True))
        + "</tr>"
        for row in listed
    )
    titles = f"<thead><tr>{head}</tr></thead>" if any(column.title for column in wanted) else ""
    said = f"<caption>{escape(caption)}</caption>" if caption else ""
    return Markup(f'<div class="scroll"><table>{said}{titles}<tbody>{body}</tbody></table></div>')


def folded(title: str, *parts: str, opened: bool = False) -> Markup:
    """Something that unfolds; nothing where it is empty."""
    body = "".join(parts)
    state = " open" if opened else ""
    return Markup(f"<details{state}><summary>{escape(title)}</summary>{body}</details>" if body else "")


def scrolling(drawing: str) -> Markup:
    """A drawing that keeps a readable size and scrolls sideways where the page is narrow."""
    return Markup(f'<div class="scroll drawing">{drawing}</div>' if drawing else "")


def key_of(tones: Iterable[tuple[str, Tone]]) -> Markup:
    """Which colour means what."""
    entries = "".join(
        f'<span><i style="background:{tone.colour}"></i>{escape(name)}</span>' for name, tone in tones
    )
    return Markup(f'<div class="key">{entries}</div>')


def bar_rows(
    rows: Iterable[tuple[str, Sequence[BarPart], float, str]], reading: Callable[[float], str]
) -> Markup:
    """Stacked bars: a label, the parts, the value of a full bar, and a note behind it.

    Each part says its name and value under the pointer; where its parts exceed a full bar, it says so.
    """
    return Markup('<div class="bars">' + "".join(_bar(*row, reading) for row in rows) + "</div>")


def _inside(part: BarPart, share: float, reading: Callable[[float], str]) -> str:
    """What stands in a part that takes so many percent of the width: nothing where it would be cut off."""
    whole = f"{part.name} {reading(part.value)}"
    text = next((text for text in (whole, part.name, reading(part.value)) if len(text) < 1.4 * share), "")
    return f"<b>{escape(text)}</b>" if text else ""


def _bar(
    label: str, parts: Sequence[BarPart], whole: float, note: str, reading: Callable[[float], str]
) -> str:
    total = sum_of_parts(parts)
    scale = 100 / max(whole, total, 1e-300)
    segments = "".join(
        f'<span style="width:{part.value * scale:.3f}%;background:{part.tone.colour}" '
        f'title="{escape(part.name)}: {escape(reading(part.value))}">'
        f"{_inside(part, part.value * scale, reading)}</span>"
        for part in parts
        if part.value > 0
    )
    # Sums of parts that fill the bar may miss it by a rounding.
    is_over = total > whole * (1 + 1e-9)
    limit = f'<u style="left:{whole * scale:.3f}%"></u>' if is_over else ""
    said = f'<span class="bar-note{" over" if limit else ""}">{escape(note)}</span>'
    spoken = ", ".join(f"{part.name} {reading(part.value)}" for part in parts if part.value > 0)
    return (
        f'<div class="bar-row"><span class="bar-label">{escape(label)}</span>'
        f'<div class="bar" role="img" aria-label="{escape(label)}: {escape(spoken)}">{segments}{limit}</div>'
        f"{said}</div>"
    )
