"""Speed and memory of the simulator itself: ``pytest tests/benchmarks/bench_simulate.py``.

Nothing here is asserted: figures belong to a machine. The README reports them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from simcluster.report import write_perfetto
from simcluster.scenario import Scenario
from simcluster.simulation import build_scenario, simulate

SCENARIOS = Path(__file__).parents[2] / "scenarios"


@pytest.mark.parametrize(
    "name", ["quickstart", "llama3-405b-16384-h100", "gpt3-175b-1024-a100", "tiny-gpt-cpu"]
)
def test_simulate(benchmark, name):
    scenario = Scenario.load(SCENARIOS / f"{name}.yaml")
    run = benchmark(simulate, scenario)
    benchmark.extra_info["spans"] = len(run.recording)


CHANGED = {
    "131,072 devices": [
        ("cluster.hosts", "16384"),
        ("training.global_batch", "16384"),
        ("parallel.mesh.data", "1024"),
    ],
    "one device slower": [("cluster.changes", "[{device: 21, compute: 0.9}]")],
    "one degraded rail": [("cluster.changes", '[{link: "unit.0.rail.0.up", bandwidth: 0.5}]')],
}


@pytest.mark.parametrize("changes", CHANGED.values(), ids=CHANGED)
def test_405b_changed(benchmark, changes):
    """Every round on a cluster of its own, so that nothing is remembered."""

    def setup():
        return (Scenario.load(SCENARIOS / "llama3-405b-16384-h100.yaml", changes),), {}

    run = benchmark.pedantic(simulate, setup=setup, rounds=3)
    benchmark.extra_info["classes"] = run.documents["summary"]["num_classes"]


@pytest.mark.parametrize("ranks", [None, range(64)], ids=["classes", "64 ranks"])
def test_trace(benchmark, ranks, tmp_path):
    """Spans per second of a compressed trace, everything else in it included."""
    run = simulate(Scenario.load(SCENARIOS / "llama3-405b-16384-h100.yaml"))
    benchmark(write_perfetto, run, tmp_path / "trace.json.gz", ranks)
    classes = range(len(run.recording.classes)) if ranks is None else run.classes_of(ranks).values()
    spans = sum(int(run.recording.sizes[index]) for index in classes)
    benchmark.extra_info["spans_per_s"] = round(spans / benchmark.stats.stats.min)


def test_prepare_405b(benchmark):
    """Planning, lowering and partition of 16,384 ranks, without the engine."""
    benchmark(build_scenario, Scenario.load(SCENARIOS / "llama3-405b-16384-h100.yaml"))


STRATEGIES = {
    "by dims": [
        {"match": "embedding.tokens", "split": {"vocab": "tensor"}},
        {"match": "layers.*.attention.{qkv,rotary,core,out}", "split": {"heads": "tensor"}},
        {"match": "layers.*.mlp.{up,activation,down}", "split": {"ffn": "tensor"}},
        {"match": "head.{logits,loss}", "split": {"vocab": "tensor"}},
    ],
    "in numbers": [
        {"match": "layers.*.mlp.up", "in": [[128, 1, 1], [1, 8], [1, 8]]},
        {"match": "layers.*.mlp.down", "in": [[128, 1, 8], [8, 1]]},
    ],
}


@pytest.mark.parametrize("strategies", STRATEGIES.values(), ids=STRATEGIES)
def test_lower_405b_with_strategies(benchmark, strategies):
    """Planning and lowering with strategies that a user writes."""
    settings = [("parallel.recipe", "data"), ("parallel.strategies", json.dumps(strategies))]
    _prepared_anew(benchmark, settings)


def test_propagate_405b(benchmark):
    """The same with three operators configured, and the others by sharding propagation."""
    strategies = [
        {"match": "layers.*.attention.qkv", "split": {"heads": "tensor"}},
        {"match": "layers.*.mlp.up", "split": {"ffn": "tensor"}},
        {"match": "head.logits", "split": {"vocab": "tensor"}},
    ]
    settings = [
        ("parallel.recipe", "null"),
        ("parallel.propagate", "true"),
        ("parallel.strategies", json.dumps(strategies)),
    ]
    _prepared_anew(benchmark, settings)


def _prepared_anew(benchmark, settings):
    """Every round with a scenario of its own, so that nothing is remembered."""

    def setup():
        return (Scenario.load(SCENARIOS / "llama3-405b-16384-h100.yaml", settings),), {}

    benchmark.pedantic(build_scenario, setup=setup, rounds=5)


MEASURED = """
import atexit, re, sys
from pathlib import Path

def keep(file=sys.argv.pop(1)):
    # What the kernel counts for the process would include the parent it was forked from.
    Path(file).write_text(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

atexit.register(keep)
from simcluster.cli import main
main()
"""
"""Runs a command line and writes its peak memory in KiB into the file given first."""

QUICKSTART = str(SCENARIOS / "quickstart.yaml")


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["run", QUICKSTART, "--quiet", "--trace", "{folder}/trace.json.gz"]],
    ids=["help", "quickstart with trace"],
)
def test_whole_process(benchmark, arguments, tmp_path):
    """A command from start to end, with its peak memory beside it."""
    peak = tmp_path / "peak"
    filled = [each.format(folder=tmp_path) for each in arguments]
    command = [sys.executable, "-c", MEASURED, str(peak), *filled]
    benchmark.pedantic(subprocess.run, (command,), {"capture_output": True, "check": True}, rounds=3)
    benchmark.extra_info["peak_mib"] = int(peak.read_text()) // 1024
