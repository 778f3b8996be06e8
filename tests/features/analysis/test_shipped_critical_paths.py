"""The critical path of shipped scenarios fills their step, and nothing on it has slack."""

from __future__ import annotations

from pathlib import Path

import pytest

from simcluster.analysis import CriticalEntries, EntryGraph, PathParts, entry_slacks
from simcluster.scenario import Scenario
from simcluster.simulation import build_scenario
from simcluster.simulation.compose import run_alone

EVERY = sorted((Path(__file__).parents[3] / "scenarios").glob("*.yaml"))
QUICK = "quickstart.yaml"
CHOSEN = [path for place, path in enumerate(EVERY) if place % 5 == 0 or path.name == QUICK]
"""One of five."""


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=[] if path.name == QUICK else pytest.mark.thorough)
        for path in CHOSEN
    ],
)
def test_the_path_is_the_step(path):
    built = build_scenario(Scenario.load(path))
    timing = run_alone(built)
    graph = EntryGraph.of(built.program, built.classes, timing)
    path_entries, slack = CriticalEntries.of(graph), entry_slacks(graph)
    entries = path_entries.entries
    assert graph.starts[entries[0]] == 0
    assert (graph.starts[entries[1:]] == graph.ends[entries[:-1]]).all()
    assert (graph.ends - graph.starts)[entries].sum() == timing.end
    assert PathParts.of(graph, path_entries).spent.sum() == timing.end
    assert (slack >= 0).all()
    assert not slack[entries].any()
