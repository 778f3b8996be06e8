"""A published run as a row of a table."""

from __future__ import annotations

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
