"""Every device different: ``pytest tests/benchmarks/bench_sweep.py``.

Llama-3 70B, tensor 8, pipeline 4, 32 micro-batches, compute drawn for each device with a deviation of 5%:
20,000 instructions per rank. On Ascend, whose file has no figures for what communication takes of it, and on
H100, whose kernels slow down beside it. Nothing here is asserted but that a sweep did it.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from simcluster.scenario import Scenario
from simcluster.simulation import build_scenario, simulate
from simcluster.simulation.compose.build import run_alone


def scenario(host: str, hosts: int) -> Scenario:
    data = hosts * 8 // 32
    return Scenario.of(
        {
            "simcluster": 1,
            "name": f"Llama-3 70B on {hosts * 8:,} different devices of {host}",
            "cluster": {
                "use": host,
                "hosts": hosts,
                "changes": [{"devices": "all", "compute": {"normal": [1.0, 0.05]}}],
            },
            "model": {"use": "llama3-70b"},
            "training": {
                "global_batch": 32 * data,
                "micro_batch": 1,
                "seq_len": 8192,
                "precision": "bf16",
                "optimizer": "adamw",
            },
            "parallel": {
                "mesh": {"pipeline": 4, "data": data, "tensor": 8},
                "recipe": "megatron_sp",
                "schedule": {"kind": "1f1b"},
                "optimizer_sharding": {"zero": 1},
            },
        }
    )


HOSTS = ["atlas-800t-a2", "dgx-h100"]


@pytest.mark.parametrize("hosts", [32, 128, 2048])
@pytest.mark.parametrize("host", HOSTS)
def test_simulate(benchmark, host, hosts):
    which = scenario(host, hosts)
    run = benchmark.pedantic(simulate, (which,), rounds=2, warmup_rounds=1)
    summary = run.documents["summary"]
    assert summary["num_classes"] == summary["num_ranks"] == hosts * 8
    benchmark.extra_info["entries"] = summary["num_events"]


@pytest.mark.parametrize("host", HOSTS)
def test_timing_alone(benchmark, host):
    built = build_scenario(scenario(host, 128))
    timing = benchmark.pedantic(run_alone, (built,), rounds=3)
    assert timing.swept is not None


MEASURED = """
import re, sys
from pathlib import Path
from simcluster.simulation import simulate
sys.path.insert(0, sys.argv[1])
from bench_sweep import scenario
simulate(scenario(sys.argv[2], int(sys.argv[3])))
print(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
"""


@pytest.mark.parametrize("hosts", [128, 2048])
@pytest.mark.parametrize("host", HOSTS)
def test_whole_process(benchmark, host, hosts):
    """From Python's start to the summary, with the peak memory beside it."""
    here = __file__.rpartition("/")[0]
    command = [sys.executable, "-c", MEASURED, here, host, str(hosts)]
    done = benchmark.pedantic(
        subprocess.run, (command,), {"capture_output": True, "check": True, "text": True}, rounds=1
    )
    benchmark.extra_info["peak_mib"] = int(done.stdout) // 1024
