"""Runs made of nothing but the figures a baseline looks at."""

from __future__ import annotations

from simcluster.analysis.metrics.summary import METRICS
from simcluster.trace import Run, Table

SCENARIO = """\
simcluster: 1
name: {name}
cluster: {{use: cpu-server, hosts: 1}}
model: {{layers: 2, hidden: 32, heads: 4, ffn: 64, vocab: 128}}
training: {{global_batch: 2, micro_batch: 1, seq_len: 8, precision: fp32}}
parallel: {{mesh: {{data: 2}}}}
"""

FIGURES = dict.fromkeys(METRICS, 1.0) | {
    "step_time_s": 8.0,
    "tokens_per_s": 1000.0,
    "mfu": 0.4,
    "peak_memory_bytes_max": 40 * 2**30,
    "idle_s": 0.0,
    "num_ranks": 256,
}
PARTS = {"exposed_communication_s": {"data": 1.0}, "peak_memory_bytes": []}
"""Figures that are more than a number."""


def made(*, program="same", fits=True, verdict=None, name="small", **figures):
    """A run with these figures, the others as above."""
    documents = {
        "plan": {"name": name},
        "provenance": {"program": program},
        "classes": [],
        "summary": FIGURES | PARTS | figures | {"fits": fits} | ({"verdict": verdict} if verdict else {}),
    }
    return Run(Table({}), Table({}), Table({}), Table({}), documents)


def slower(factor, **figures):
    """A run of the same work that takes longer: the throughput follows."""
    throughput = ("tokens_per_s", "tokens_per_s_per_device", "samples_per_s", "mfu", "hfu")
    throughput += ("mfu_full_attention", "hfu_full_attention")
    figures = {figure: FIGURES[figure] / factor for figure in throughput} | figures
    figures["model_flops_per_s_per_device"] = FIGURES["model_flops_per_s_per_device"] / factor
    return made(step_time_s=FIGURES["step_time_s"] * factor, **figures)


def write(folder, *names, extra=""):
    """Scenario files by name in a folder, which is returned."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / f"{name}.yaml").write_text(SCENARIO.format(name=name) + extra)
    return folder
