"""A schedule as a grid in characters: a row per stage, time to the right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from rich.text import Text

from simcluster.draw.schedule_slots import LENGTHS, ScheduleSlot, schedule_layout
from simcluster.draw.tone import BLUE, EMPTY, GREEN, GREY, ORANGE, PURPLE, TEAL, Tone

TONES: Mapping[str, Tone] = MappingProxyType(
    {"F": BLUE, "B": GREEN, "I": GREEN, "W": TEAL, "R": ORANGE, "begin": GREY, "end": PURPLE}
)
"""The tone of every kind of action, in grids and in timelines."""

_CUT = " … "


def schedule_grid(
    schedule: str,
    width: int,
    *,
    lengths: Mapping[str, int] = LENGTHS,
    labels: Sequence[str] = (),
    places: Sequence[tuple[int, int]] = (),
) -> Text:
    """The grid of a schedule's text, at most ``width`` characters wide, cut in the middle if it is longer.

    Actions start as early as their dependencies allow and take ``lengths`` units of time, a unit being as
    wide as the longest label that has to fit. ``labels`` name the rows (default: ``stage 0`` ...), ``places``
    say where chunks lie, as in ``schedule_layout``.
    """
    rows = schedule_layout(schedule, lengths, places)
    names = [*labels] or [f"stage {stage}" for stage in range(len(rows))]
    margin = max((len(name) for name in names), default=0) + 2
    unit = max((-(-(len(slot.label) + 1) // slot.length) for row in rows for slot in row), default=1)
    length = unit * max((row[-1].end for row in rows if row), default=0)
    lines = []
    for name, row in zip(names, rows, strict=True):
        line = _cut(_line(row, unit, length), max(1, width - margin), unit)
        lines.append(Text.assemble((name.ljust(margin), "dim"), line, no_wrap=True))
    return Text("\n", no_wrap=True, overflow="crop").join(lines)


def _line(row: Sequence[ScheduleSlot], unit: int, length: int) -> Text:
    text = Text(no_wrap=True)
    for slot in row:
        text.append(_idle(slot.start * unit - len(text), unit), EMPTY.style)
        room = slot.length * unit - 1
        tone = TONES.get(slot.kind[:1], GREY)
        text.append(slot.label[:room].ljust(room, "─"), tone.style)
        text.append(" ")
    text.append(_idle(length - len(text), unit), EMPTY.style)
    return text


def _idle(length: int, unit: int) -> str:
    """One dot per unit of time without work."""
    return (EMPTY.glyph + " " * (unit - 1)) * (length // unit)


def _cut(line: Text, width: int, unit: int) -> Text:
    """The line with whole units left out of its middle where it is too long: its start matters most."""
    if len(line) <= width:
        return line
    room = max(0, width - len(_CUT)) // unit
    tail = room // 3 * unit
    head = room * unit - tail
    return Text.assemble(line[:head], (_CUT, "dim"), line[len(line) - tail :], no_wrap=True)
