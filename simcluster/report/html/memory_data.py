"""What the page's script needs for memory over time: of the fullest classes every allocation and release."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import orjson

from simcluster.report.content import memory_category, stage_title
from simcluster.report.html.packing import differences, packed_bytes, packed_columns
from simcluster.trace import Run, RunDocument

MOST_CLASSES = 128
"""Classes that are looked at: of very many each is made when it is asked for."""

MOST_CHANGES = 1_000_000
"""Allocations and releases of a page; classes beyond are left out, the emptiest first. The page says so."""


def memory_pieces(run: Run) -> Iterator[tuple[str, str]]:
    """The piece ``memory``, and ``changes.0`` ... for each class shown; none where nothing is held."""
    end = run.recording.end
    entries = run.documents.get("memory") or run.documents["summary"]["peak_memory_bytes"]
    chosen, columns, buffers = [], [], dict[int, int]()
    ranked = sorted(entries, key=lambda entry: -_fullness(entry))
    left_out = max(0, len(ranked) - MOST_CLASSES)
    count = 0
    kept: list[tuple[RunDocument, Any]] = []
    for entry in ranked[:MOST_CLASSES]:
        rows = run.memory.among("class", entry["class"])
        if not len(rows) or not end:
            continue
        if kept and count + len(rows) > MOST_CHANGES:
            left_out += 1
            continue
        kept.append((entry, rows))
        count += len(rows)
    if not kept:
        return
    kept.sort(key=lambda pair: (pair[0]["stage"], pair[0]["class"]))
    for entry, rows in kept:
        numbers, places = np.unique(rows["buffer"], return_inverse=True)
        own = np.array([buffers.setdefault(number, len(buffers)) for number in numbers.tolist()])
        columns.append(
            packed_columns(
                [
                    differences(rows["time"]),
                    rows["bytes"],
                    differences(own[places.reshape(-1)]),
                    rows["category"],
                ]
            )
        )
        chosen.append(_shown(entry, len(rows)))
    names = kept[0][1].names
    document = {
        "end": end,
        "classes": chosen,
        "first": int(np.argmax([_fullness(entry) for entry, _ in kept])),
        "categories": [
            [memory_category(name)[0], memory_category(name)[1].colour] for name in names["category"]
        ],
        "used": sorted({number for _, rows in kept for number in np.unique(rows["category"]).tolist()}),
        "buffers": [names["buffer"][number] for number in buffers],
        "left_out": left_out,
    }
    yield "memory", packed_bytes(orjson.dumps(document))
    for number, text in enumerate(columns):
        yield f"changes.{number}", text


def _fullness(entry: RunDocument) -> float:
    held = entry["total"] if "total" in entry else entry["reserved"] + entry["outside"]
    return float(held) / float(entry["capacity"])


def _shown(entry: RunDocument, count: int) -> dict[str, Any]:
    """One class: its title, capacity, number of changes, and what its allocator reserves over time."""
    return {
        "title": f"{stage_title(entry)}, rank {entry['rank']} ({entry['device']})",
        "capacity": entry["capacity"],
        "outside": entry.get("outside", 0),
        "reserved": entry.get("reserved_over_time") or [],
        "changes": count,
    }
