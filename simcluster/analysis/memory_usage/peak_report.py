"""The memory peak of every class, as a summary has it: when, by category, and by how much too large."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simcluster.analysis.memory_usage.allocation_log import CATEGORIES
from simcluster.analysis.memory_usage.live_set import largest_live_buffers
from simcluster.analysis.memory_usage.peak_memory import find_group_peaks
from simcluster.analysis.memory_usage.stage_allocations import log_allocations
from simcluster.analysis.placed_program import PlacedProgram
from simcluster.analysis.timeline import NameIndex
from simcluster.engine import Timing
from simcluster.program import Category, Program
from simcluster.trace import Table


def class_peak(placed: PlacedProgram, index: int, rows: Table, *, assigned: bool) -> dict[str, Any]:
    """The peak of a class with these allocations: when it was, what it was made of, and by how much it
    exceeds the device. ``assigned`` says that the plan wrote several programs by hand.
    """
    times, sizes = rows["time"], rows["bytes"]
    level = np.cumsum(sizes)
    top = int(level.argmax())
    entry = _peak(placed, index, int(level[top]), int(times[top]), assigned)
    until = slice(top + 1)
    entry["breakdown"] = _by_category(rows["category"][until], sizes[until])
    if level[top] > entry["capacity"]:
        first = int(np.argmax(level > entry["capacity"]))
        buffers, batches = rows["buffer"][until], rows["micro_batch"][until]
        living = largest_live_buffers(buffers, sizes[until], batches, rows.names["buffer"])
        entry |= _excess(entry, int(times[first]), living)
    return entry


def group_peaks(placed: PlacedProgram, timing: Timing, *, assigned: bool) -> list[dict[str, Any]]:
    """The same of all classes, group by group."""
    by_class: dict[int, dict[str, Any]] = {}
    buffers = NameIndex()
    for times in timing.groups:
        indices, linked = times.group.indices, times.group.part.untimed
        device = placed.devices[indices[0]]
        rows = log_allocations(placed.program, placed.parts[indices[0]], device, linked, buffers)
        most = find_group_peaks(rows, times, device.memory)
        names = list(buffers.names)
        for peak in most.contents:
            sizes = rows.sizes[peak.rows]
            breakdown = _by_category(rows.kinds[peak.rows], sizes)
            living = None
            for column in peak.columns.tolist():
                index = indices[column]
                entry = _peak(placed, index, int(most.total[column]), int(most.time[column]), assigned)
                entry["breakdown"] = dict(breakdown)
                if entry["total"] > entry["capacity"]:
                    batches = rows.micro_batches[peak.rows]
                    living = living or largest_live_buffers(rows.buffers[peak.rows], sizes, batches, names)
                    entry |= _excess(entry, int(most.exceeded[column]), living)
                by_class[index] = entry
    return [by_class[index] for index in range(len(by_class))]


def _peak(placed: PlacedProgram, index: int, total: int, time: int, assigned: bool) -> dict[str, Any]:
    """The peak of a class, in bytes, at a time in nanoseconds."""
    rank, device = placed.classes.representatives[index], placed.devices[index]
    return {
        "class": index,
        "stage": placed.program.stage_of(rank),
        "rank": rank,
        "ranks": placed.classes.sizes[index],
        "device": device.name,
        **(program_of(placed.program, rank) if assigned else {}),
        "total": total,
        "capacity": device.memory,
        "time_s": float(time) * 1e-9,
        "breakdown": {},
    }


def program_of(program: Program, rank: int) -> dict[str, str]:
    """Which of several hand-written programs a rank runs."""
    return {"program": f"program {program.part_of(rank)}"}


def _by_category(kinds: NDArray[Any], sizes: NDArray[Any]) -> dict[str, int]:
    # Sums of floats are exact here: less than 2^53 bytes are held at any row.
    held = np.bincount(kinds, weights=sizes, minlength=len(CATEGORIES)).astype(np.int64)
    by_name = dict(zip(CATEGORIES, held.tolist(), strict=True))
    # Only inference has caches.
    return {name: size for name, size in by_name.items() if size or name != Category.KV_CACHE}


def _excess(entry: Mapping[str, Any], first: int, living: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "exceeded_at_s": float(first) * 1e-9,
        "excess": entry["total"] - entry["capacity"],
        "alive": living,
    }
