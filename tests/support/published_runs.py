"""Published runs as rows of a table."""

from __future__ import annotations

import csv

from simcluster.accuracy.runs import COLUMNS, read_runs

ROW = {
    "id": "tests-gpt-0001",
    "framework": "megatron-core",
    "model": "gpt-0.3b",
    "layers": "2",
    "hidden": "256",
    "heads": "4",
    "vocab": "1024",
    "seq_len": "128",
    "hardware": "A100-80GB SXM",
    "num_devices": "8",
    "devices_per_host": "8",
    "data": "4",
    "tensor": "2",
    "pipeline": "1",
    "context": "1",
    "expert": "1",
    "sequence_parallel": "true",
    "zero_stage": "1",
    "micro_batch": "2",
    "global_batch": "16",
    "recompute": "full",
    "precision": "bf16",
    "schedule": "none",
    "offload": "none",
    "metric": "step_time",
    "value": "0.5",
    "peak_mem_gib": "2",
}


def written(tmp_path, *changes, columns=COLUMNS):
    """A file of rows that differ from the usual one so."""
    file = tmp_path / "runs.csv"
    with file.open("w", newline="") as out:
        rows = csv.DictWriter(out, columns, extrasaction="ignore")
        rows.writeheader()
        rows.writerows({**dict.fromkeys(columns, ""), **ROW, **change} for change in changes or ({},))
    return file


def run_of(tmp_path, **change):
    return read_runs(written(tmp_path, change))[0]
