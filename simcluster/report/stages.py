"""The peak memory of every stage, in as few rows as a screen has room for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from simcluster import units

EQUAL = 0.005
"""Stages whose peaks differ by less than this share of the capacity are equal to the eye."""

Entry = Mapping[str, Any]


@dataclass(frozen=True)
class StageMemory:
    """Stages ``first`` to ``last`` and the entry of ``peak_memory_bytes`` with the highest peak among them.

    ``ranks`` counts the ranks of all of them.
    """

    first: int
    last: int
    ranks: int
    worst: Entry

    @property
    def label(self) -> str:
        """``stage 3`` or ``stage 4-7``."""
        name = called(self.worst).rpartition(" ")[0]
        return f"{name} {self.first}" if self.first == self.last else f"{name} {self.first}-{self.last}"

    def joined(self, other: StageMemory) -> StageMemory:
        """Both together; ``other`` holds the stages that follow."""
        worst = max(self.worst, other.worst, key=_fullness)
        return StageMemory(self.first, other.last, self.ranks + other.ranks, worst)


def called(entry: Entry) -> str:
    """What the stage of a class is called: ``stage 3``, or which of several hand-written programs it runs."""
    return str(entry.get("program") or f"stage {entry['stage']}")


def stage_memory(peaks: Sequence[Entry], most: int) -> list[StageMemory]:
    """At most ``most`` rows over all stages, in order.

    Classes of one stage are one row. Where the rows are too many, equal neighbours become one; if that is not
    enough, neighbours are taken together in equal numbers.
    """
    stages: dict[int, StageMemory] = {}
    for entry in peaks:
        stage = entry["stage"]
        row = StageMemory(stage, stage, entry["ranks"], entry)
        stages[stage] = stages[stage].joined(row) if stage in stages else row
    rows = [stages[stage] for stage in sorted(stages)]
    if len(rows) > most:
        rows = _equal_together(rows)
    if len(rows) > most:
        size = -(-len(rows) // most)
        rows = [_together(rows[start : start + size]) for start in range(0, len(rows), size)]
    return rows


def labels(rows: Sequence[StageMemory]) -> list[str]:
    """What the rows are called; where there is one stage only, nobody asks for its number."""
    if len(rows) == 1 and rows[0].first == rows[0].last:
        return ["all ranks"]
    return [row.label for row in rows]


def against(rows: Sequence[StageMemory]) -> str:
    """What the bars are to be measured by."""
    capacities = sorted({row.worst["capacity"] for row in rows})
    together = any(row.first != row.last for row in rows)
    more = "; of stages taken together the fullest" if together else ""
    return f"against {' or '.join(map(units.size, capacities))} per device{more}"


def _fullness(entry: Entry) -> float:
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
    found = rows[0]
    for row in rows[1:]:
        found = found.joined(row)
    return found
