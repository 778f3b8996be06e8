"""Plans of a small model, by what is written about them."""

from __future__ import annotations

from typing import Any

from simcluster.cluster import ClusterSpec
from simcluster.document import validate_data
from simcluster.model.spec.model_spec import ModelSpec
from simcluster.plan import Plan, make_plan
from simcluster.plan.spec.parallel_spec import FrameworkSpec, ParallelSpec, TrainingSpec

LLAMA = {"layers": 4, "hidden": 16, "heads": 8, "kv_heads": 4, "ffn": 24, "vocab": 61}
GPT = {"family": "gpt", "layers": 4, "hidden": 16, "heads": 4, "vocab": 64, "max_positions": 8}


def plan(
    mesh: dict[str, int],
    *,
    model: dict[str, Any] | None = None,
    devices: int | None = None,
    training: dict[str, Any] | None = None,
    **parallel: Any,
) -> Plan:
    """A plan on one host of as many devices as the mesh has ranks."""
    ranks = 1
    for size in mesh.values():
        ranks *= size
    host = {"use": "cpu-server", "devices": devices or ranks, "network": {"nics": 1}}
    cluster = validate_data({"host": host, "hosts": 1}, ClusterSpec).build()
    wanted = {"global_batch": 4 * mesh.get("data", 1), "micro_batch": 1, "seq_len": 8, **(training or {})}
    return make_plan(
        validate_data(model or LLAMA, ModelSpec).build(None),
        validate_data(wanted, TrainingSpec),
        validate_data({"mesh": mesh, **parallel}, ParallelSpec),
        FrameworkSpec.load("ideal"),
        cluster,
    )
