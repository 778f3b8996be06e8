"""What hosts hold for their devices as HTML: a table of their peaks, and levels over time."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

import numpy as np

from simcluster import units
from simcluster.document import count_phrase
from simcluster.draw import Markup, html_legend, html_table, quantities, section, stacked_area
from simcluster.report.content import HOST_COLUMNS, host_place_text, host_rows, memory_category
from simcluster.trace import RunDocument

MOST_AREAS = 6
"""Sorts of hosts and places whose levels are drawn: the first ones."""

HEIGHT = 110


def host_section_html(documents: RunDocument, width: int) -> Iterator[Markup]:
    """The section on hosts, where they hold anything."""
    rows = host_rows(documents["summary"])
    if not rows:
        return
    _, *figures, most = HOST_COLUMNS
    table = html_table(["", *quantities(*figures), most], rows)
    shown = [host for host in documents.get("host_memory", ()) if host["levels"]][:MOST_AREAS]
    names = dict.fromkeys(name for host in shown for name, levels in host["levels"].items() if any(levels))
    legend = html_legend(map(memory_category, names)) if names else Markup("")
    yield section(
        "Hosts", "at their peak, and over time", table, legend, *(_area(host, width) for host in shown)
    )


def _area(entry: RunDocument, width: int) -> Markup:
    """What is held at one place, one area upon the other."""
    levels = np.array(list(entry["levels"].values()), dtype=np.float64)
    times = np.linspace(0.0, entry["end_s"], levels.shape[1] + 1)[:-1]
    area = stacked_area(
        times,
        levels,
        [memory_category(name) for name in entry["levels"]],
        units.size,
        end=entry["end_s"],
        limit=entry["capacity"] or None,
        width=width,
        height=HEIGHT,
        columns=levels.shape[1],
    )
    head = f"{host_place_text(entry)}, each for {count_phrase(entry['devices'], 'device')}"
    return Markup(f'<div style="font-size:12px;opacity:.7;margin:4px 0 0">{escape(head)}</div>{area}')
