"""Runs that nobody simulated: the figures by which knobs are chosen, made up."""

from __future__ import annotations

from simcluster.scenario import Scenario
from simcluster.tuning import PresentRun

GIB = 2**30

USUAL = {
    "simcluster": 1,
    "name": "made up",
    "cluster": {"use": "dgx-h100", "hosts": 2},
    "model": {"layers": 8, "hidden": 1024, "heads": 16, "ffn": 4096, "vocab": 32_000},
    "training": {"global_batch": 64, "micro_batch": 2, "seq_len": 1024, "precision": "bf16"},
    "parallel": {"mesh": {"pipeline": 2, "data": 2, "tensor": 4}},
}


def made_up_run(
    *,
    parallel=None,
    training=None,
    model=None,
    framework="ideal",
    plan=None,
    step=10.0,
    bubble=0.0,
    exposed=None,
    needed=70.0,
    host=0.0,
    **summary,
):
    """A run of a small transformer on two hosts of eight H100 whose memory of 80 GiB is ``needed`` GiB full.

    ``bubble``, ``exposed`` (by axis) and ``host`` are shares of the step; a summary may hold more.
    """
    parts = {
        "parallel": USUAL["parallel"] | (parallel or {}),
        "training": USUAL["training"] | (training or {}),
    }
    if model:
        parts["model"] = USUAL["model"] | model
    scenario = Scenario.of(USUAL | parts | {"framework": framework})
    mesh = scenario.spec.parallel.sizes
    sharding = {"states": False, "gradients": False, "weights": False, "split": "flat"}
    stages = mesh.get("pipeline", 1)
    document = {
        "parameters": 1_000_000_000,
        "framework": framework,
        "mesh": mesh,
        "stage_axis": "pipeline",
        "layers_per_stage": [8 // stages] * stages,
        "micro_batches": 16,
        "data_parallel_ways": mesh.get("data", 1),
        "global_batch": parts["training"]["global_batch"],
        "micro_batch": parts["training"]["micro_batch"] // scenario.spec.parallel.copies,
        "optimizer_sharding": sharding,
        "seq_len": parts["training"]["seq_len"],
        "recipe": scenario.spec.parallel.recipe or "megatron",
    }
    memory = {
        "total": int(needed * GIB),
        "fragments": 0,
        "capacity": 80 * GIB,
        "headroom": 0,
        "breakdown": {"activations": 40 * GIB, "optimizer_states": 3 * GIB},
    }
    figures = {
        "step_time_s": step,
        "pipeline_wait_s": bubble * step,
        "host_s": host * step,
        "exposed_communication_s": {axis: share * step for axis, share in (exposed or {}).items()},
        "peak_memory_bytes": [memory],
    }
    return PresentRun(scenario, figures | summary, document | (plan or {}))
