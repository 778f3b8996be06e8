"""The peak memory of every stage, in as few rows as a screen has room for."""

from __future__ import annotations

from collections.abc import Sequence

from simcluster import units
from simcluster.deferred_dataclass import dataclass
from simcluster.trace import RunDocument

EQUAL = 0.005
"""Stages whose peaks differ by less than this share of the capacity are equal to the eye."""


@dataclass(frozen=True)
class StageMemory:
    """Stages ``first`` to ``last`` and the entry of ``peak_memory_bytes`` with the highest peak among them.

    ``ranks`` counts the ranks of all of them; ``device`` is what they run on, where not all ranks of these
    stages run on the same.
    """

    first: int
    last: int
    ranks: int
    worst: RunDocument
    device: str = ""

    @property
    def label(self) -> str:
        """``stage 3`` or ``stage 4-7``."""
        title = stage_title(self.worst)
        if self.first == self.last:
            return f"{title}, {self.device}" if self.device else title
        name = title.rpartition(" ")[0] or "part"
        stages = f"{self.first}-{self.last}"
        return f"{name} {stages}, {self.device}" if self.device else f"{name} {stages}"

    def joined(self, other: StageMemory) -> StageMemory:
        """Both together; ``other`` holds the stages that follow."""
        worst = max(self.worst, other.worst, key=_fullness)
        return StageMemory(self.first, other.last, self.ranks + other.ranks, worst, self.device)


def stage_title(entry: RunDocument) -> str:
    """What the stage of a class is called: ``stage 3``, or which of several hand-written programs it runs,
    or its role beside parameter servers.
    """
    return str(entry.get("program") or f"stage {entry['stage']}")


def place_title(entry: RunDocument, peaks: Sequence[RunDocument]) -> str:
    """Where the peak ``entry`` is, one of ``peaks``: its stage; without pipeline stages ``every rank``, or
    ``the fullest rank`` where ranks differ.
    """
    if "program" in entry or len({peak["stage"] for peak in peaks}) > 1:
        return stage_title(entry)
    return "every rank" if len(peaks) == 1 else "the fullest rank"


def stage_titles(documents: RunDocument) -> dict[int, str]:
    """Stage -> what it is called, of all that have ranks."""
    return {entry["stage"]: stage_title(entry) for entry in documents["classes"]}


def stage_memory(peaks: Sequence[RunDocument], most: int) -> list[StageMemory]:
    """At most ``most`` rows over all stages, in order; at least one for every sort of devices.

    Classes of one stage on equal devices are one row. Where the rows are too many, equal neighbours become
    one; if that is not enough, neighbours are taken together in equal numbers.
    """
    mixed = _mixed(peaks)
    stages: dict[tuple[int, str], StageMemory] = {}
    for entry in peaks:
        stage, device = entry["stage"], entry["device"]
        row = StageMemory(stage, stage, entry["ranks"], entry, device if stage in mixed else "")
        known = stages.get((stage, device))
        stages[stage, device] = known.joined(row) if known else row
    rows = [stages[key] for key in sorted(stages)]
    if len(rows) <= most:
        return rows
    by_device: dict[str, list[StageMemory]] = {}
    for row in rows:
        by_device.setdefault(row.worst["device"], []).append(row)
    groups = [_equal_together(group) for group in by_device.values()]
    size = 1
    while sum(-(-len(group) // size) for group in groups) > max(most, len(groups)):
        size += 1
    return [
        _together(group[start : start + size]) for group in groups for start in range(0, len(group), size)
    ]


def _mixed(peaks: Sequence[RunDocument]) -> set[int]:
    """Stages whose ranks do not all run on equal devices."""
    devices: dict[int, set[str]] = {}
    for entry in peaks:
        devices.setdefault(entry["stage"], set()).add(entry["device"])
    return {stage for stage, names in devices.items() if len(names) > 1}


def bar_scale(rows: Sequence[StageMemory]) -> float:
    """The length of a full bar in capacities of its device: 1, or more where some stage needs more."""
    return max(1.0, *(_fullness(row.worst) for row in rows))


def row_labels(rows: Sequence[StageMemory]) -> list[str]:
    """The labels of rows; ``all ranks`` where there is only one stage."""
    if len(rows) == 1 and rows[0].first == rows[0].last:
        return ["all ranks"]
    return [row.label for row in rows]


def capacity_marks(rows: Sequence[StageMemory]) -> str:
    """``against 80 GiB per device``: what full bars stand for."""
    capacities = {row.worst["device"]: row.worst["capacity"] for row in rows}
    together = any(row.first != row.last for row in rows)
    more = "; of stages taken together the fullest" if together else ""
    if len(set(capacities.values())) == 1:
        return f"against {units.size(*set(capacities.values()))} per device{more}"
    listed = ", ".join(f"{units.size(size)} of {device}" for device, size in capacities.items())
    return f"each against its own device: {listed}{more}"


def _fullness(entry: RunDocument) -> float:
    return float(entry["total"]) / float(entry["capacity"])


def _equal_together(rows: Sequence[StageMemory]) -> list[StageMemory]:
    """Neighbours taken together as long as all of them are equal to the first."""
    groups: list[list[StageMemory]] = []
    for row in rows:
        if groups and abs(_fullness(row.worst) - _fullness(groups[-1][0].worst)) < EQUAL:
            groups[-1].append(row)
        else:
            groups.append([row])
    return [_together(group) for group in groups]


def _together(rows: Sequence[StageMemory]) -> StageMemory:
    joined = rows[0]
    for row in rows[1:]:
        joined = joined.joined(row)
    return joined
