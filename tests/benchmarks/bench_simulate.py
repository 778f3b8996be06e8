"""Speed and memory of the simulator itself: ``pytest tests/benchmarks/bench_simulate.py``.

Nothing here is asserted: figures belong to a machine. The README reports them.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from simcluster.scenario import Scenario
from simcluster.simulation import prepare, simulate

SCENARIOS = Path(__file__).parents[2] / "scenarios"


@pytest.mark.parametrize(
    "name", ["quickstart", "llama3-405b-16384-h100", "gpt3-175b-1024-a100", "tiny-gpt-cpu"]
)
def test_simulate(benchmark, name):
    scenario = Scenario.load(SCENARIOS / f"{name}.yaml")
    run = benchmark(simulate, scenario)
    benchmark.extra_info["spans"] = len(run.spans)


def test_prepare_405b(benchmark):
    """Planning, lowering and partition of 16,384 ranks, without the engine."""
    benchmark(prepare, Scenario.load(SCENARIOS / "llama3-405b-16384-h100.yaml"))


QUICKSTART = str(SCENARIOS / "quickstart.yaml")


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["run", QUICKSTART, "--quiet", "--trace", "{folder}/trace.json.gz"]],
    ids=["help", "quickstart with trace"],
)
def test_whole_process(benchmark, arguments, tmp_path):
    """A command from start to end; the peak memory of all children is kept beside it."""
    filled = [each.format(folder=tmp_path) for each in arguments]
    command = [sys.executable, "-m", "simcluster.cli", *filled]
    benchmark.pedantic(subprocess.run, (command,), {"capture_output": True, "check": True}, rounds=3)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    benchmark.extra_info["peak_mib"] = peak // 1024
