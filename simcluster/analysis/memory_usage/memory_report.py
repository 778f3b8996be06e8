"""Memory: the peak of every class, and per stage what is allocated, reserved, and alive at the peak."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from simcluster.analysis.memory_usage.allocation_log import CATEGORIES, Numbers
from simcluster.analysis.memory_usage.allocation_table import AllocationAccount
from simcluster.analysis.memory_usage.memory_verdict import MemoryRule, MemoryUse, outside_allocator
from simcluster.analysis.memory_usage.peak_memory import find_peaks
from simcluster.document import generalised_name
from simcluster.engine import GroupTiming, Timing
from simcluster.program import Category, PlacedProgram
from simcluster.trace import NameIndex, Table

LARGEST = 8
"""Buffers that are named where a class does not fit."""

SHOWN = 24
"""Entries of a live set; the rest is one more."""


MOST_CLASSES = 128
"""Up to so many classes, one per stage and kind of device is reported, whatever the profile."""


def report_memory(
    placed: PlacedProgram,
    timing: Timing,
    account: AllocationAccount,
    rule: MemoryRule,
    steps: int,
    *,
    assigned: bool,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The peak of every class with its verdict, and per stage and sort of devices, of the fullest class
    there: bytes allocated, reserved, outside, alive.

    ``allocated`` is what the framework's tensors take at their peak, ``reserved`` what its allocator has
    taken from the device for them (equal where the profile names none), ``outside`` what the runtime and the
    communication library hold besides. ``reserved_over_time`` has (seconds, bytes) from when on more is
    reserved. Of a run of very many different ranks, whose accounts are not kept, only the fullest is told
    where there is no allocator to replay. ``assigned`` says that the plan wrote several programs by hand.
    """
    brief = len(placed.classes) > MOST_CLASSES and not rule.pools
    peaks: dict[int, dict[str, Any]] = {}
    fullest, stages, fragments = [], [], 0
    for groups in _groups(placed, timing):
        members: dict[int, dict[str, Any]] = {}
        for group in groups:
            members |= _class_peaks(placed, group, account, assigned=assigned)
        fullest.append(max((members[index] for index in sorted(members)), key=_fullness))
        if not brief:
            stages.append(_stage_memory(rule, steps, account, fullest[-1]))
            # The others are taken to have as much in fragments as the class whose allocator was replayed.
            fragments = max(0, stages[-1]["reserved"] - stages[-1]["allocated"])
        for index, entry in members.items():
            use = MemoryUse(entry["total"], fragments, entry["capacity"], rule.headroom)
            peaks[index] = entry | use.document()
    if brief:
        stages = [_stage_memory(rule, steps, account, max(fullest, key=_fullness))]
    return [peaks[index] for index in range(len(peaks))], stages


def _class_peaks(
    placed: PlacedProgram, timing: GroupTiming, account: AllocationAccount, *, assigned: bool
) -> dict[int, dict[str, Any]]:
    """The peaks of the classes of a group, by class: when they were, what they were made of, and by how much
    they exceed the device. ``assigned`` says that the plan wrote several programs by hand.
    """
    indices = timing.group.indices
    log, capacity = account.log(indices[0]), placed.devices[indices[0]].memory
    peaks = find_peaks(log, timing, capacity, lambda column: account.in_order(indices[column]))
    entries = {}
    for index, peak in zip(indices, peaks, strict=True):
        rank = placed.classes.representatives[index]
        held = dict(zip(CATEGORIES, peak.by_category.tolist(), strict=True))
        entry: dict[str, Any] = {
            "class": index,
            "stage": placed.stages[index],
            "rank": rank,
            "ranks": placed.classes.sizes[index],
            "device": placed.devices[index].name,
            **({"program": placed.program.role_of(rank)} if assigned else {}),
            "total": peak.total,
            "capacity": capacity,
            "time_s": float(peak.time) * 1e-9,
            # Only inference has caches.
            "breakdown": {name: size for name, size in held.items() if size or name != Category.KV_CACHE},
        }
        if peak.total > capacity:
            rows, names = peak.rows(), account.buffers.listed
            by_name = _live_bytes_by_name(log.buffers[rows], log.sizes[rows], log.micro_batches[rows], names)
            largest = sorted(by_name.items(), key=lambda named: -named[1].size)[:LARGEST]
            entry |= {
                "exceeded_at_s": float(peak.exceeded) * 1e-9,
                "excess": peak.total - capacity,
                "alive": [{"buffer": name, "bytes": live.size} for name, live in largest],
            }
        entries[index] = entry
    return entries


def _groups(placed: PlacedProgram, timing: Timing) -> list[list[GroupTiming]]:
    """The groups of classes of every stage and sort of devices, in the order of these."""
    groups: dict[tuple[int, str], list[GroupTiming]] = {}
    for group in timing.groups:
        index = group.group.indices[0]
        groups.setdefault((placed.stages[index], placed.devices[index].name), []).append(group)
    return [groups[sort] for sort in sorted(groups)]


def _fullness(entry: Mapping[str, Any]) -> float:
    return float(entry["total"]) / float(entry["capacity"])


def memory_maxima(stages: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """The figures of the summary: the most allocated, and the most reserved, on any device."""
    return {
        "allocated_memory_bytes_max": max(entry["allocated"] for entry in stages),
        "reserved_memory_bytes_max": max(entry["reserved"] for entry in stages),
    }


def _stage_memory(
    rule: MemoryRule, steps: int, account: AllocationAccount, entry: Mapping[str, Any]
) -> dict[str, Any]:
    rows = account.rows(entry["class"])
    beside = outside_allocator(rows)
    allocated = entry["total"] - beside
    report: dict[str, Any] = {
        **{name: entry[name] for name in ("stage", "class", "rank", "device", "capacity")},
        "allocator": rule.allocator,
        "allocated": allocated,
        "reserved": allocated,
        "outside": beside,
        "headroom": rule.headroom,
        "time_s": entry["time_s"],
        "alive": _living(rows),
    }
    if growth := rule.reserved(rows, steps):
        over_time = [[time * 1e-9, level] for time, level in growth]
        report |= {"reserved": growth[-1][1], "reserved_over_time": over_time}
    return report


def _living(rows: Table) -> list[dict[str, Any]]:
    """What is alive at the highest moment of a class, largest first; the last entry is the rest."""
    top = int(np.cumsum(rows["bytes"]).argmax()) + 1
    buffers, sizes, micro_batches, categories = (
        rows[name][:top] for name in ("buffer", "bytes", "micro_batch", "category")
    )
    names, kinds = rows.names["buffer"], rows.names["category"]
    kind_of = np.zeros(len(names), dtype=np.int64)
    kind_of[buffers] = categories
    entries: list[dict[str, Any]] = [
        {"buffer": name, "bytes": size, "buffers": count, "category": kinds[kind_of[first]]}
        for name, (size, count, first) in _live_bytes_by_name(buffers, sizes, micro_batches, names).items()
    ]
    entries.sort(key=lambda entry: (-entry["bytes"], entry["buffer"]))
    if rest := entries[SHOWN:]:
        size, count = (sum(entry[name] for entry in rest) for name in ("bytes", "buffers"))
        entries[SHOWN:] = [{"buffer": "others", "bytes": size, "buffers": count, "category": ""}]
    return entries


class _LiveBytes(NamedTuple):
    """The bytes of the buffers of one name, how many there are, and the number of the first."""

    size: int
    num_buffers: int
    first: int


def _live_bytes_by_name(
    buffers: Numbers, sizes: Numbers, micro_batches: Numbers, names: Sequence[str]
) -> dict[str, _LiveBytes]:
    """What is alive after some rows of an allocation table, by name.

    Those of one name over layers are together: ``layers.*.mlp.up.out`` stands for that buffer of every layer.
    """
    width = int(micro_batches.max(initial=0)) + 2
    first = int(buffers.min(initial=len(names)))
    keys = (buffers.astype(np.int64) - first) * width + micro_batches + 1
    # Sums of floats are exact here: what is held of one buffer is less than 2^53 bytes at any row.
    level = np.bincount(keys, weights=sizes)
    living = np.flatnonzero(level > 0)
    numbers, begins, counts = np.unique(living // width + first, return_index=True, return_counts=True)
    held = np.add.reduceat(level[living], begins) if len(begins) else level[living]
    general = NameIndex()
    which = general.numbers(generalised_name(names[number]) for number in numbers.tolist())
    _, places = np.unique(which, return_index=True)
    sums = (np.bincount(which, weights=column).astype(np.int64).tolist() for column in (held, counts))
    return dict(zip(general.names, map(_LiveBytes, *sums, numbers[places].tolist()), strict=True))
