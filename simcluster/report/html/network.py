"""Communication: by mesh axis, between ranks, over links, and on the drawn topology."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

import numpy as np
import orjson

from simcluster import units
from simcluster.draw import (
    Box,
    BoxRow,
    Column,
    Connection,
    Markup,
    Tone,
    quantities,
    tier_diagram_svg,
    use_colour,
)
from simcluster.report.content import (
    COMMUNICATION_FIGURES,
    GROUP_FIGURES,
    TENANT_FIGURES,
    communication_rows,
    host_group_rows,
    tenant_rows,
    waiting_text,
)
from simcluster.report.html.elements import data_table, folded, page_section, scrolling
from simcluster.report.html.packing import packed_bytes, packed_columns
from simcluster.trace import RunDocument

MOST_LINKS = 12
"""Kinds of links that are listed without unfolding them."""


def matrix_pieces(documents: RunDocument) -> Iterator[tuple[str, str]]:
    """The pieces ``matrix`` and ``matrix.bytes``: what ranks send each other; none where nothing is sent."""
    traffic = documents.get("traffic")
    if traffic is None or not any(map(any, traffic["matrix"])):
        return
    matrix = np.array(traffic["matrix"], dtype=np.int64)
    known = {
        "size": len(matrix),
        "ranks_per_cell": traffic["ranks_per_cell"],
        "ranks": documents["summary"]["num_ranks"],
    }
    yield "matrix", packed_bytes(orjson.dumps(known))
    yield "matrix.bytes", packed_columns([matrix.ravel()])


def network_section(documents: RunDocument, *, matrix: bool) -> Markup:
    """The section on communication; ``matrix``: the page has the data of who sends to whom."""
    summary = documents["summary"]
    axes = data_table(
        ["axis", *quantities(*COMMUNICATION_FIGURES), "collectives"], communication_rows(summary)
    )
    groups = data_table(["means over ranks", *quantities(*GROUP_FIGURES)], host_group_rows(summary))
    tenants = data_table(
        ["scenario", "hosts", *quantities(*TENANT_FIGURES), "waits longer for"], tenant_rows(summary)
    )
    traffic: RunDocument = documents.get("traffic") or {}
    return page_section(
        "communication",
        "Communication",
        "per step, by mesh axis" if axes else "",
        axes,
        _matrix(traffic) if matrix else "",
        _links(traffic),
        *(_drawing(drawing) for drawing in traffic.get("drawings", ())),
        f"<h3>Groups of hosts</h3><p>{escape(waiting_text(summary))}</p>{groups}" if groups else "",
        f"<h3>Others on this cluster</h3>{tenants}" if tenants else "",
    )


def _matrix(traffic: RunDocument) -> str:
    count = traffic["ranks_per_cell"]
    cell = f"a cell is {count} ranks that follow one another; " if count > 1 else ""
    note = (
        "bytes that ranks send each other in a step, by the algorithms that collectives use (what a reducing "
        f"switch passes on counts evenly for all others of the group); {cell}senders "
        "from top to bottom, receivers from left to right"
    )
    return f'<h3>Between ranks</h3><p class="note">{note}</p><div id="matrix-view"></div>'


def _links(traffic: RunDocument) -> str:
    """A row for each kind of links, the busiest first."""
    rows = [
        [
            link["name"],
            f"{link['used']:,} of {link['count']:,}",
            units.bandwidth(link["rate"]),
            units.volume(link["bytes_mean"]),
            units.volume(link["bytes_max"]),
            units.percent(link["share_max"]),
            _share_bar(link["share_max"]),
        ]
        for link in traffic.get("links", ())
    ]
    if not rows:
        return ""
    titles: list[Column | str] = [
        "links",
        *quantities("used", "rate", "mean a step", "busiest", "of the step"),
        "",
    ]
    note = "of the step: the share of it in which the busiest link of a kind would be full of these bytes"
    rest = folded(f"{len(rows) - MOST_LINKS} more kinds of links", data_table(titles, rows[MOST_LINKS:]))
    return (
        f'<h3>Links</h3><p class="note">{note}</p>{data_table(titles, rows[:MOST_LINKS])}'
        f"{rest if len(rows) > MOST_LINKS else ''}"
    )


def _share_bar(share: float) -> Markup:
    width = 120 * min(1.0, share)
    return Markup(
        f'<span class="share"><span style="width:{width:.1f}px;background:{use_colour(share) or "none"}">'
        "</span></span>"
    )


def _drawing(drawing: Any) -> str:
    """One drawn part of the topology, lines in the colour of their use."""
    rows = [
        BoxRow(
            row["name"],
            [
                Box(key, label, Tone("", tone, ""), title, short)
                for key, label, tone, title, short in row["boxes"]
            ],
            row["more"],
        )
        for row in drawing["rows"]
    ]
    lines = [
        Connection(one, other, title, weight, use=use) for one, other, title, weight, use in drawing["lines"]
    ]
    svg = tier_diagram_svg(rows, lines, f"{drawing['title']}, and how its links are used")
    keys = "".join(
        f'<span><i style="background:{use_colour(use)}"></i>{text}</span>'
        for use, text in (
            (1e-3, "hardly used"),
            (0.25, "a quarter of the step"),
            (0.5, "half"),
            (1.0, "all of it"),
        )
    )
    return (
        f"<h3>{escape(drawing['title'][:1].upper() + drawing['title'][1:])}</h3>"
        f'<div class="key">{keys}<span class="dim">grey: not used by this step</span></div>'
        f"{scrolling(svg)}"
    )
