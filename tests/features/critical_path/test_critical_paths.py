"""Critical paths of whole scenarios, the shipped ones too, fill their step, and nothing on them has slack."""

from __future__ import annotations

from pathlib import Path

import pytest

from simcluster.critical_path.critical_entries import CriticalEntries
from simcluster.critical_path.entry_graph import EntryGraph
from simcluster.critical_path.path_parts import PathParts
from simcluster.critical_path.slack import entry_slacks
from simcluster.scenario import Scenario
from simcluster.simulation import build_scenario
from simcluster.simulation.compose import run_alone

EVERY = sorted((Path(__file__).parents[3] / "scenarios").glob("*.yaml"))
QUICK = "quickstart.yaml"
CHOSEN = [path for place, path in enumerate(EVERY) if place % 5 == 0 or path.name == QUICK]
"""One of five."""


def assert_exact(built):
    """The path fills the run, its parts sum to it, nothing of it has slack; the graph."""
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
    return graph


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=[] if path.name == QUICK else pytest.mark.thorough)
        for path in CHOSEN
    ],
)
def test_the_path_is_the_step(path):
    assert_exact(build_scenario(Scenario.load(path)))


@pytest.mark.parametrize("update", ["synchronous", "asynchronous", "stale_synchronous"])
def test_gates_of_parameter_servers_are_followed_to_who_opens_them(update):
    servers = {"servers": 2, "update": update} | ({"staleness": 1} if update.startswith("stale") else {})
    which = Scenario.of(
        {
            "simcluster": 1,
            "name": "servers",
            "cluster": {"use": "cpu-server", "hosts": 4, "changes": [{"device": 0, "compute": 0.5}]},
            "model": {"layers": 2, "hidden": 64, "heads": 4, "ffn": 128, "vocab": 256},
            "training": {"global_batch": 20, "micro_batch": 1, "seq_len": 16, "precision": "fp32"}
            | {"optimizer": {"kind": "sgd"}},
            "parallel": {"mesh": {"data": 5}, "parameter_server": servers},
            "run": {"steps": 3},
        }
    )
    graph = assert_exact(build_scenario(which))
    assert graph.gates.waits
    assert set(graph.gates.waits.values()) <= set(graph.gates.openers)
