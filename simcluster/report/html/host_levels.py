"""What hosts hold for their devices: a table of their peaks, and levels over time."""

from __future__ import annotations

from html import escape

import numpy as np

from simcluster import units
from simcluster.document import count_phrase
from simcluster.draw import Markup, quantities, stacked_area
from simcluster.report.content import HOST_COLUMNS, host_place_text, host_rows, memory_category
from simcluster.report.html.elements import data_table, key_of, scrolling
from simcluster.trace import RunDocument

MOST_AREAS = 6
"""Sorts of hosts and places whose levels are drawn: the first ones."""

WIDTH, HEIGHT = 960, 110


def hosts_part(documents: RunDocument) -> str:
    """The part on hosts, where they hold anything."""
    rows = host_rows(documents["summary"])
    if not rows:
        return ""
    _, *figures, most = HOST_COLUMNS
    table = data_table(["", *quantities(*figures), most], rows)
    shown = [host for host in documents.get("host_memory", ()) if host["levels"]][:MOST_AREAS]
    names = dict.fromkeys(name for host in shown for name, levels in host["levels"].items() if any(levels))
    legend = key_of(map(memory_category, names)) if names else ""
    areas = "".join(_area(host) for host in shown)
    return f'<h3>Hosts</h3><p class="note">at their peak, and over time</p>{table}{legend}{areas}'


def _area(entry: RunDocument) -> str:
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
        width=WIDTH,
        height=HEIGHT,
        columns=levels.shape[1],
    )
    head = f"{host_place_text(entry)}, each for {count_phrase(entry['devices'], 'device')}"
    return f'<p class="note">{escape(head)}</p>{scrolling(Markup(area))}'
