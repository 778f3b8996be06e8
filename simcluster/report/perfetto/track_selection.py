"""Whose tracks a trace shows: one of every class, or ranks by their numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from simcluster.deferred_dataclass import dataclass
from simcluster.report.content import stage_title
from simcluster.trace import Run


@dataclass(frozen=True, slots=True)
class TraceTrack:
    """One process of a trace. Numbers start at 1: process 0 is the idle process to readers."""

    pid: int
    name: str
    device: str


@dataclass(frozen=True, slots=True)
class TraceTracks:
    """The tracks of every class that has some, and the pairs of neighbours along the pipeline.

    ``neighbours`` are (class, its process, the next stage's class, its process).
    """

    by_class: Mapping[int, Sequence[TraceTrack]]
    neighbours: Sequence[tuple[int, int, int, int]]


def select_tracks(run: Run, ranks: Iterable[int] | None = None) -> TraceTracks:
    """One track per class, or one per rank that is named; TraceError if there is no such rank."""
    classes: Sequence[Mapping[str, Any]] = run.documents["classes"]
    if ranks is None:
        tracks = {
            entry["class"]: [
                TraceTrack(
                    entry["class"] + 1,
                    f"{stage_title(entry)} - ranks {entry['members']} ({entry['ranks']})",
                    entry["device"],
                )
            ]
            for entry in classes
        }
        pairs = [
            (entry["class"], entry["next_class"]) for entry in classes if entry["next_class"] is not None
        ]
        return TraceTracks(tracks, [(a, a + 1, b, b + 1) for a, b in pairs])
    chosen = run.classes_of(ranks)
    by_class: dict[int, list[TraceTrack]] = {}
    for rank, index in chosen.items():
        entry = classes[index]
        name = f"rank {rank} (class {index}, {stage_title(entry)})"
        by_class.setdefault(index, []).append(TraceTrack(rank + 1, name, entry["device"]))
    following = run.ranks["next"]
    after = {rank: int(following[rank]) for rank in chosen}
    neighbours = [
        (index, rank + 1, chosen[after[rank]], after[rank] + 1)
        for rank, index in chosen.items()
        if after[rank] in chosen
    ]
    return TraceTracks(dict(sorted(by_class.items())), neighbours)
