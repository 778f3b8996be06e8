"""The memory of a run as HTML: bars by stage, what is reserved, levels over time, and what is alive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

import numpy as np

from simcluster import units
from simcluster.draw import (
    Markup,
    Stack,
    html_legend,
    html_table,
    quantities,
    section,
    stacked_area,
    stacked_bars_svg,
    swatch,
)
from simcluster.report.content import (
    bar_scale,
    capacity_marks,
    fragmentation_text,
    fullest_device,
    headroom_text,
    is_mixed,
    memory,
    memory_category,
    row_labels,
    stage_memory,
    stage_title,
    verdict_text,
)
from simcluster.trace import Run, RunDocument

MOST_STAGES = 16
"""Rows of the bars."""

MOST_AREAS = 6
"""Stages whose levels are drawn over time; the fullest is the largest."""

TALL, LOW = 190, 84


def memory_section_html(run: Run, width: int) -> Iterator[Markup]:
    """The sections of a report about memory."""
    documents = run.documents
    yield _bars(documents["summary"], width)
    stages = documents.get("memory", ())
    yield from _reserved(stages, documents["summary"])
    yield from _over_time(run, width)
    yield from _living(documents)


def _bars(summary: RunDocument, width: int) -> Markup:
    rows = stage_memory(summary["peak_memory_bytes"], MOST_STAGES)
    bars = [
        Stack(
            label,
            memory(row.worst["breakdown"]),
            f"{units.size(row.worst['total'])}, {100 * row.worst['total'] / row.worst['capacity']:.0f} %",
            row.worst["capacity"],
        )
        for label, row in zip(row_labels(rows), rows, strict=True)
    ]
    names = dict.fromkeys(name for row in rows for name, size in row.worst["breakdown"].items() if size)
    said = [f'<div style="font-size:12px;opacity:.7">{escape(line)}</div>' for line in _verdict(summary)]
    return section(
        "Memory at its peak",
        capacity_marks(rows),
        html_legend(map(memory_category, names)),
        Markup(stacked_bars_svg(bars, units.size, width=width, whole=bar_scale(rows))),
        Markup("".join(said)),
    )


def _verdict(summary: RunDocument) -> Iterator[str]:
    """What is left, and the rule, unless they stand above it all."""
    if headroom := headroom_text(summary):
        yield headroom
    if verdict_text(summary) != "tight" and "verdict_rule" in summary:
        yield f"the rule: {summary['verdict_rule']}"


def _reserved(stages: Sequence[RunDocument], summary: RunDocument) -> Iterator[Markup]:
    """What an allocator makes of it, by stage, and what is left of each device."""
    replayed = [stage for stage in stages if stage["allocator"] is not None]
    if not replayed:
        return
    titles = ("tensors", "reserved", "fragments", "outside", "of capacity", "left")
    mixed = is_mixed(summary)
    rows = [
        [
            f"{stage_title(stage)}{_device(stage, mixed)}",
            units.size(stage["allocated"]),
            units.size(stage["reserved"]),
            units.percent(fragmentation_text(stage)),
            units.size(stage["outside"]),
            units.percent((stage["reserved"] + stage["outside"]) / stage["capacity"]),
            units.size(stage["capacity"] - stage["reserved"] - stage["outside"]),
        ]
        for stage in replayed[:MOST_STAGES]
    ]
    note = f"by replay through the allocator {replayed[0]['allocator']}; outside: runtime and communicators"
    body = html_table(["", *quantities(*titles)], rows)
    yield section("Memory reserved", note, body)


def _device(entry: RunDocument, mixed: bool) -> str:
    """What it runs on, where that is not the same everywhere."""
    return f", {entry['device']}" if mixed and "device" in entry else ""


def _over_time(run: Run, width: int) -> Iterator[Markup]:
    """The accounts of the fullest class of stages, below one another, in one clock."""
    chosen, mixed = _chosen(run.documents), is_mixed(run.documents["summary"])
    end = run.recording.end * 1e-9
    areas, names = [], dict[str, None]()
    for entry, height in chosen:
        rows = run.memory.among("class", entry["class"])
        if not len(rows) or not end:
            continue
        kinds = rows.names["category"]
        levels = np.cumsum(
            np.where(rows["category"] == np.arange(len(kinds))[:, None], rows["bytes"], 0),
            axis=1,
            dtype=np.float64,
        )
        names |= dict.fromkeys(name for name, level in zip(kinds, levels, strict=True) if level.any())
        area = stacked_area(
            rows["time"] * 1e-9,
            levels,
            [memory_category(name) for name in kinds],
            units.size,
            end=end,
            limit=entry["capacity"],
            line=_line(entry),
            width=width,
            height=height,
        )
        head = f"{stage_title(entry)}, rank {entry['rank']}{_device(entry, mixed)}"
        areas.append(Markup(f'<div style="font-size:12px;opacity:.7;margin:4px 0 0">{head}</div>{area}'))
    if areas:
        line = (
            "; the line: reserved, with what is outside" if any(_line(stage) for stage, _ in chosen) else ""
        )
        note = f"the highest moment of every pixel{line}"
        yield section("Memory over time", note, html_legend(map(memory_category, names)), *areas)


def _line(entry: RunDocument) -> tuple[Any, Any] | None:
    """What is reserved over time, with what is outside."""
    reserved = entry.get("reserved_over_time")
    if not reserved:
        return None
    times, levels = np.array(reserved, dtype=np.float64).T
    return times, levels + entry["outside"]


def _chosen(documents: RunDocument) -> list[tuple[RunDocument, int]]:
    """Entries of stages in order, with the heights at which they are drawn; the fullest is among them."""
    stages = documents.get("memory") or documents["summary"]["peak_memory_bytes"]
    top = fullest_device(documents) or max(stages, key=lambda stage: stage["total"] / stage["capacity"])
    places = np.unique(np.linspace(0, len(stages) - 1, min(MOST_AREAS, len(stages))).astype(int)).tolist()
    chosen = [stages[place] for place in places]
    if top not in chosen:
        chosen[-1] = top
    chosen.sort(key=lambda stage: int(stage["stage"]))
    if not documents.get("memory"):
        chosen = [top]
    return [(stage, TALL if stage is top else LOW) for stage in chosen]


def _living(documents: RunDocument) -> Iterator[Markup]:
    """What is alive at the peak of the fullest device, by name."""
    entry = fullest_device(documents)
    if entry is None:
        return
    rows = [
        [
            Markup(f"{swatch(memory_category(tensor['category'])[1])} {escape(tensor['buffer'])}")
            if tensor["category"]
            else tensor["buffer"],
            f"{tensor['buffers']:,}",
            units.size(tensor["bytes"]),
            units.percent(tensor["bytes"] / (entry["allocated"] + entry["outside"])),
        ]
        for tensor in entry["alive"]
    ]
    device = _device(entry, is_mixed(documents["summary"]))
    note = (
        f"{stage_title(entry)}, rank {entry['rank']}{device}, {units.seconds(entry['time_s'])} into the run"
    )
    table = html_table(["", *quantities("buffers", "size", "share")], rows)
    yield section("Alive at the peak", note, Markup(f"<details><summary>buffers</summary>{table}</details>"))
