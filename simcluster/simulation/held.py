"""What memory is held: per stage what was allocated, reserved and alive at the peak, by names and sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from simcluster.engine import PoolRules, reserve
from simcluster.engine.account import OUTSIDE
from simcluster.plan.allocator import AllocatorSpec, PoolSpec
from simcluster.simulation.alive import by_name
from simcluster.simulation.build import Built
from simcluster.trace import Table

SHOWN = 24
"""Entries of a live set; the rest is one more."""


MOST_CLASSES = 128
"""Classes of which one per stage is told."""


def held(built: Built, account: Table, peaks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Per stage, of the class that holds most there: bytes allocated, reserved, outside, and what is alive.

    ``allocated`` is what the framework's tensors take at their peak, ``reserved`` what its allocator has
    taken from the device for them (equal where the profile names none), ``outside`` what the runtime and the
    communication library hold besides. ``reserved_over_time`` has (seconds, bytes) from when on more is
    reserved. Of a run of very many different ranks, whose accounts are not kept, only the fullest is told.
    """
    fullest: dict[int, Mapping[str, Any]] = {}
    for entry in peaks:
        known = fullest.get(entry["stage"])
        if known is None or entry["total"] > known["total"]:
            fullest[entry["stage"]] = entry
    chosen = [fullest[stage] for stage in sorted(fullest)]
    if len(peaks) > MOST_CLASSES:
        chosen = [max(chosen, key=lambda entry: int(entry["total"]))]
    return [_held(built, account.among("class", entry["class"]), entry) for entry in chosen]


def totals(found: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """The figures of the summary: the most that tensors take on any device, and that is reserved for them."""
    return {
        "allocated_memory_bytes_max": max(each["allocated"] for each in found),
        "reserved_memory_bytes_max": max(each["reserved"] for each in found),
    }


def _held(built: Built, rows: Table, entry: Mapping[str, Any]) -> dict[str, Any]:
    name = built.scenario.framework.storage.allocator
    outside = sum(
        int(rows["bytes"][rows["buffer"] == number].sum())
        for number, buffer in enumerate(rows.names["buffer"])
        if buffer in OUTSIDE
    )
    allocated = entry["total"] - outside
    found: dict[str, Any] = {
        "stage": entry["stage"],
        "class": entry["class"],
        "rank": entry["rank"],
        "capacity": entry["capacity"],
        "allocator": name,
        "allocated": allocated,
        "reserved": allocated,
        "outside": outside,
        "time_s": entry["time_s"],
        "alive": _living(rows),
    }
    if name is not None:
        steps = built.scenario.spec.run.steps
        kept = reserve(rows, [rules(pool) for pool in AllocatorSpec.load(name).pools], steps)
        found |= {
            "reserved": kept.reserved,
            "reserved_over_time": [
                [time * 1e-9, level]
                for time, level in zip(kept.times.tolist(), kept.levels.tolist(), strict=True)
            ],
        }
    return found


def rules(pool: PoolSpec) -> PoolRules:
    """A pool as the replay takes it."""

    def size(given: float | None) -> float:
        return float("inf") if given is None else given

    return PoolRules(
        largest=size(pool.largest),
        rounded=round(pool.rounded),
        segment=round(pool.segment),
        own_segment=size(pool.own_segment),
        granule=round(pool.granule),
        remainder=round(pool.remainder),
        expandable=pool.expandable,
    )


def _living(rows: Table) -> list[dict[str, Any]]:
    """What is alive at the highest moment of a class, largest first; the last entry is the rest."""
    top = int(np.cumsum(rows["bytes"]).argmax()) + 1
    names, kinds = rows.names["buffer"], rows.names["category"]
    together = by_name(rows["buffer"][:top], rows["bytes"][:top], rows["micro_batch"][:top], names)
    category = dict(zip(rows["buffer"].tolist(), rows["category"].tolist(), strict=True))
    entries: list[dict[str, Any]] = [
        {"buffer": name, "bytes": size, "buffers": len(found), "category": kinds[category[found[0][0]]]}
        for name, (size, found) in together.items()
    ]
    entries.sort(key=lambda each: (-each["bytes"], each["buffer"]))
    rest = entries[SHOWN:]
    if rest:
        size, count = sum(each["bytes"] for each in rest), sum(each["buffers"] for each in rest)
        entries[SHOWN:] = [{"buffer": "others", "bytes": size, "buffers": count, "category": ""}]
    return entries
