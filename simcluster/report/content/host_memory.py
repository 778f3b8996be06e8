"""Host memory and disks that offloaded tensors take: the same rows and sentences in every report."""

from __future__ import annotations

from simcluster import units
from simcluster.document import count_phrase
from simcluster.report.content.bar_parts import memory
from simcluster.trace import RunDocument

HOST_COLUMNS = ("Hosts at their peak", "holds", "of", "", "most of it")
"""What the rows of ``host_rows`` say."""

_PLACES = {"host": "memory", "disk": "disks"}


def host_rows(summary: RunDocument) -> list[list[str]]:
    """A row per sort of hosts and place: who, bytes, capacity, share, and the largest categories."""
    rows = []
    for entry in summary.get("host_memory_bytes", ()):
        parts = sorted(memory(entry["breakdown"]), key=lambda part: -part.value)[:2]
        capacity = entry["capacity"]
        rows.append(
            [
                host_place_text(entry),
                units.size(entry["total"]),
                units.size(capacity) if capacity else "none",
                units.percent(entry["total"] / capacity) if capacity else "",
                ", ".join(f"{part.name} {units.size(part.value)}" for part in parts if part.value),
            ]
        )
    return rows


def host_place_text(entry: RunDocument) -> str:
    """``memory of 4 x dgx-h100``: which memory or disks of which hosts."""
    return f"{_PLACES[entry['place']]} of {entry['hosts']:,} x {entry['host']}"


def overfull_hosts(summary: RunDocument) -> str:
    """Which hosts lack memory or disk space, how much, and since when; empty if none."""
    over = [entry for entry in summary.get("host_memory_bytes", ()) if not entry["fits"]]
    if not over:
        return ""
    worst = max(over, key=lambda entry: entry["excess"])
    at = worst["exceeded_at_s"]
    since = f"first at {units.seconds(at)}" if at else "from the start"
    return (
        f"the {host_place_text(worst)} would hold "
        f"{units.size(worst['total'])} for {count_phrase(worst['devices'], 'device')}, "
        f"{units.size(worst['excess'])} too much, {since}"
    )
