"""The memory peak of every class, as a summary has it: when, by category, and by how much too large."""

from __future__ import annotations

from typing import Any

from simcluster.analysis.memory_usage.allocation_log import CATEGORIES
from simcluster.analysis.memory_usage.allocation_table import AllocationAccount
from simcluster.analysis.memory_usage.live_set import largest_live_buffers
from simcluster.analysis.memory_usage.peak_memory import find_peaks
from simcluster.analysis.placed_program import PlacedProgram
from simcluster.engine import GroupTiming
from simcluster.program import Category, Program


def class_peaks(
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
            "stage": placed.program.stage_of(rank),
            "rank": rank,
            "ranks": placed.classes.sizes[index],
            "device": placed.devices[index].name,
            **(program_of(placed.program, rank) if assigned else {}),
            "total": peak.total,
            "capacity": capacity,
            "time_s": float(peak.time) * 1e-9,
            # Only inference has caches.
            "breakdown": {name: size for name, size in held.items() if size or name != Category.KV_CACHE},
        }
        if peak.total > capacity:
            rows, names = peak.rows(), list(account.buffers.names)
            columns = log.buffers[rows], log.sizes[rows], log.micro_batches[rows]
            entry |= {
                "exceeded_at_s": float(peak.exceeded) * 1e-9,
                "excess": peak.total - capacity,
                "alive": largest_live_buffers(*columns, names),
            }
        entries[index] = entry
    return entries


def program_of(program: Program, rank: int) -> dict[str, str]:
    """Which of several hand-written programs a rank runs, or what it is beside parameter servers."""
    if program.mesh.beside:
        number = rank - program.mesh.num_on_axes
        if number < 0:
            return {"program": "workers"}
        return {"program": "scheduler" if rank == program.mesh.num_ranks - 1 else f"server {number}"}
    return {"program": f"program {program.part_of(rank)}"}
