"""What collectives carried in a run, for tests."""

from __future__ import annotations

from typing import Any

from simcluster.scenario import Scenario
from simcluster.simulation import simulate


def carried(which: Scenario, kind: str, **how: Any) -> list[tuple[int, int]]:
    """(start, bytes) of every collective of a kind that class 0 takes part in, by their starts."""
    spans = simulate(which, **how).spans
    mine = (spans.text("kind") == "collective") & (spans["class"] == 0)
    names = spans.text("operator")[mine].tolist()
    rows = zip(spans["start"][mine].tolist(), spans["bytes"][mine].tolist(), names, strict=True)
    return [(start, size) for start, size, name in sorted(rows) if kind in name]
