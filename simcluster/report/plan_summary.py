"""The plan of a run as a notebook shows it: its decisions, and its schedule as a grid."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from simcluster.draw import (
    GREY,
    TONES,
    Column,
    Interval,
    html_table,
    intervals_plot,
    schedule_grid,
    schedule_layout,
    screen_width,
)

_LONG = 300
"""Characters of a decision that are shown."""


class PlanSummary(dict[str, Any]):
    """What was decided, by name: a dictionary that can draw its schedule."""

    def schedule_grid(self) -> Any:
        """The schedule: a row per stage, time to the right, every action with its micro-batch.

        In units of time as if all stages were equal: a forward takes 1, a backward 2. Raises SimclusterError
        where plotly is not installed; ``print(plan)`` draws it in characters.
        """
        rows = schedule_layout(self["schedule"]["text"], places=self._places)
        intervals = [
            Interval(
                f"stage {stage}",
                slot.start,
                slot.end,
                slot.label,
                slot.kind[:1],
                TONES.get(slot.kind[:1], GREY),
            )
            for stage, row in enumerate(rows)
            for slot in row
        ]
        title = f"Schedule: {self['schedule']['kind']}"
        return intervals_plot(intervals, title, x="units of time", reading="{:g}".format, labelled=True)

    @property
    def _places(self) -> list[tuple[int, int]]:
        return [(stage, chunk) for stage, chunk in self["schedule"].get("places", ())]

    def __str__(self) -> str:
        lines = [f"{name}: {_text(value)}" for name, value in self.items() if name != "schedule"]
        grid = schedule_grid(self["schedule"]["text"], screen_width(), places=self._places)
        return "\n".join([*lines, "", grid.plain])

    def _repr_html_(self) -> str:
        rows = [[name.replace("_", " "), _text(value)] for name, value in self.items() if name != "schedule"]
        grid = schedule_grid(self["schedule"]["text"], 110, places=self._places).plain
        style = "font-size:11px;line-height:1.3;overflow-x:auto"
        return html_table(["", Column(wraps=True)], rows) + f'<pre style="{style}">{escape(grid)}</pre>'


def _text(value: object) -> str:
    """A decision to read; of a long one its beginning."""
    if isinstance(value, Mapping):
        text = ", ".join(f"{name} {inner}" for name, inner in value.items())
    elif isinstance(value, list):
        text = "; ".join(map(str, value))
    else:
        text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
    return text if len(text) <= _LONG else f"{text[:_LONG]} ..."
