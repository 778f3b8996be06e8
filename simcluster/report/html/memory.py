"""What devices and hosts hold: peaks by stage, levels over time with what is alive, what is reserved."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from simcluster import units
from simcluster.draw import Markup, quantities
from simcluster.report.content import (
    bar_scale,
    capacity_marks,
    fragmentation,
    headroom_text,
    is_mixed,
    memory,
    memory_category,
    row_labels,
    stage_memory,
    stage_title,
)
from simcluster.report.html.elements import bar_rows, data_table, folded, key_of, page_section
from simcluster.report.html.host_levels import hosts_part
from simcluster.trace import RunDocument

MOST_ROWS = 24
"""Rows of the bars."""


def memory_section(documents: RunDocument, *, over_time: bool) -> Markup:
    """The section on memory; ``over_time``: the page has the data of what is held over time."""
    summary = documents["summary"]
    rows = stage_memory(summary["peak_memory_bytes"], MOST_ROWS)
    names = dict.fromkeys(name for row in rows for name, size in row.worst["breakdown"].items() if size)
    scale = bar_scale(rows)
    bars = bar_rows(
        [
            (
                label,
                memory(row.worst["breakdown"]),
                row.worst["capacity"] * (1 if row.worst["total"] > row.worst["capacity"] else scale),
                f"{units.size(row.worst['total'])}, {100 * row.worst['total'] / row.worst['capacity']:.0f} %",
            )
            for label, row in zip(row_labels(rows), rows, strict=True)
        ],
        units.size,
    )
    said = "".join(f'<p class="note">{escape(line)}</p>' for line in _verdict(summary))
    return page_section(
        "memory",
        "Memory",
        f"at its peak, {capacity_marks(rows)}",
        key_of(map(memory_category, names)),
        bars,
        said,
        _over_time(documents) if over_time else "",
        _reserved(documents),
        hosts_part(documents),
    )


def _verdict(summary: RunDocument) -> Iterator[str]:
    if headroom := headroom_text(summary):
        yield headroom
    if "verdict_rule" in summary:
        yield f"the rule: {summary['verdict_rule']}"


def _over_time(documents: RunDocument) -> str:
    dashed = any(stage.get("reserved_over_time") for stage in documents.get("memory", ()))
    line = "; dashed: what the allocator reserves, with what is outside it" if dashed else ""
    note = f"each pixel shows its highest level; red: capacity{line}. Drag to move, Ctrl and wheel to zoom."
    return f'<h3>Over time</h3><p class="note">{note}</p><div id="memory-view" class="view"></div>'


def _reserved(documents: RunDocument) -> str:
    """What an allocator makes of it, by class, and what is left of each device."""
    replayed = [stage for stage in documents.get("memory", ()) if stage["allocator"] is not None]
    if not replayed:
        return ""
    titles = ("tensors", "reserved", "fragments", "outside", "of capacity", "left")
    mixed = is_mixed(documents["summary"])
    rows = [
        [
            f"{stage_title(stage)}{', ' + stage['device'] if mixed and 'device' in stage else ''}",
            units.size(stage["allocated"]),
            units.size(stage["reserved"]),
            units.percent(fragmentation(stage)),
            units.size(stage["outside"]),
            units.percent((stage["reserved"] + stage["outside"]) / stage["capacity"]),
            units.size(stage["capacity"] - stage["reserved"] - stage["outside"]),
        ]
        for stage in replayed[:MOST_ROWS]
    ]
    title = f"reserved, by replay through the allocator {replayed[0]['allocator']}"
    note = '<p class="note">outside: runtime and communicators</p>'
    return folded(title, note, data_table(["", *quantities(*titles)], rows))
