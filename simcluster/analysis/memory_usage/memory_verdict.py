"""The rule by which a plan fits, is tight, or does not fit; every command uses this one.

A device must hold the tensors of its ranks and what runtime and communicators take beside them, or the plan
**does not fit**. It **fits** if there is room, too, for what the allocator has reserved beyond its tensors,
and for the headroom, ``run.headroom`` or that of the framework profile. In between it is **tight**: it may
run, once cached blocks were given back, or end out of memory.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import numpy as np

from simcluster.analysis.memory_usage.allocation_log import OUTSIDE
from simcluster.analysis.memory_usage.allocator_replay import replay_allocator
from simcluster.analysis.memory_usage.block_lists import EVERY_SIZE, PoolRules
from simcluster.deferred_dataclass import dataclass
from simcluster.engine import RunSpec
from simcluster.plan import AllocatorSpec, FrameworkSpec, PoolSpec
from simcluster.trace import Table

RULE = (
    "it fits if a device has room for all that its allocator reserves, for runtime and communicators, and "
    "for the headroom; it is tight if only without fragments or headroom, and does not fit otherwise"
)
"""The rule in words."""


class MemoryVerdict(StrEnum):
    """Whether memory is enough, from the best to the worst."""

    FITS = "fits"
    TIGHT = "tight"
    DOES_NOT_FIT = "does not fit"

    @property
    def severity(self) -> int:
        """0 for what fits; the worse, the more."""
        return list(MemoryVerdict).index(self)


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """The use of a memory against its capacity, in bytes.

    ``allocated`` is the most that tensors, runtime and communicators take together, ``fragments`` what the
    allocator has reserved beyond its tensors, ``headroom`` what is to be left free of ``capacity``.
    """

    allocated: int
    fragments: int
    capacity: int
    headroom: int = 0

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> MemoryUse:
        """The use in an entry of ``peak_memory_bytes`` or ``host_memory_bytes``."""
        return cls(entry["total"], entry["fragments"], entry["capacity"], entry["headroom"])

    @property
    def needed(self) -> int:
        """What is allocated and reserved."""
        return self.allocated + self.fragments

    @property
    def left(self) -> int:
        """What is free then, below zero where something is lacking."""
        return self.capacity - self.needed

    @property
    def lacking(self) -> int:
        """What is lacking for it to fit, headroom and all; zero or less where it fits."""
        return self.headroom - self.left

    @property
    def fullness(self) -> float:
        """What is needed and to be left free, as a share of what there is."""
        wanted = self.needed + self.headroom
        return wanted / self.capacity if self.capacity else float(wanted)

    @property
    def verdict(self) -> MemoryVerdict:
        """The rule."""
        if self.allocated > self.capacity:
            return MemoryVerdict.DOES_NOT_FIT
        return MemoryVerdict.TIGHT if self.lacking > 0 else MemoryVerdict.FITS

    def document(self) -> dict[str, Any]:
        """The keys of entries of ``peak_memory_bytes`` and ``host_memory_bytes`` besides their totals."""
        return {
            "fragments": self.fragments,
            "headroom": self.headroom,
            "left": self.left,
            "verdict": str(self.verdict),
            "fits": self.verdict is MemoryVerdict.FITS,
        }


def deciding_verdict(summary: Mapping[str, Any]) -> MemoryUse:
    """The memory of a summary that decides the verdict: the fullest device of those with the worst one.

    A host only where its verdict is worse than that of every device.
    """
    memories = {"peak_memory_bytes": True, "host_memory_bytes": False}
    uses = (
        (MemoryUse.of(entry), is_device)
        for key, is_device in memories.items()
        for entry in summary.get(key, ())
    )
    return max(uses, key=lambda use: (use[0].verdict.severity, use[1], use[0].fullness))[0]


def overall_verdict(
    devices: Sequence[Mapping[str, Any]], hosts: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """The verdict on all memories together, and whether they fit, as a summary has them."""
    verdict = deciding_verdict({"peak_memory_bytes": devices, "host_memory_bytes": hosts}).verdict
    return {"verdict": str(verdict), "fits": verdict is MemoryVerdict.FITS}


@dataclass(frozen=True, slots=True)
class MemoryRule:
    """The pools of a framework's ``allocator``, none without one, and the bytes to be left free."""

    allocator: str | None
    pools: tuple[PoolRules, ...]
    headroom: int

    @classmethod
    def of(cls, framework: FrameworkSpec, run: RunSpec) -> MemoryRule:
        """The rule of a framework profile, with the headroom of the scenario if it gives one."""
        name = framework.storage.allocator
        pools = AllocatorSpec.load(name).pools if name is not None else ()
        return cls(name, tuple(map(pool_rules, pools)), headroom(framework, run))

    def reserved(self, rows: Table, steps: int) -> list[tuple[int, int]]:
        """When the allocator reserves more for a class (ns), and the bytes from then on; [] without one."""
        return replay_allocator(rows, self.pools, steps) if self.pools else []

    def use(self, rows: Table, capacity: int) -> MemoryUse:
        """The use of a class with these allocations of one step."""
        allocated = int(np.cumsum(rows["bytes"]).max(initial=0))
        growth = self.reserved(rows, 1)
        fragments = max(0, growth[-1][1] + outside_allocator(rows) - allocated) if growth else 0
        return MemoryUse(allocated, fragments, capacity, self.headroom)


def headroom(framework: FrameworkSpec, run: RunSpec) -> int:
    """Bytes to be left free on every device: as the scenario says, else as the profile does."""
    if run.headroom is not None:
        return round(run.headroom)
    return round(framework.storage.headroom.value) if framework.storage.headroom is not None else 0


def outside_allocator(rows: Table) -> int:
    """Bytes of runtime and communicators, which are outside the framework's allocator."""
    numbers = [rows.index("buffer", name) for name in OUTSIDE]
    return int(rows["bytes"][np.isin(rows["buffer"], numbers)].sum())


def pool_rules(pool: PoolSpec) -> PoolRules:
    """A pool as the replay takes it."""
    return PoolRules(
        largest=EVERY_SIZE if pool.largest is None else math.floor(pool.largest),
        rounded=round(pool.rounded),
        segment=round(pool.segment),
        own_segment=EVERY_SIZE if pool.own_segment is None else math.ceil(pool.own_segment),
        granule=round(pool.granule),
        remainder=round(pool.remainder),
        expandable=pool.expandable,
    )
