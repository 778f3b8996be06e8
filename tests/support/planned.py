"""Plans of a small model, by what is written about them."""

from __future__ import annotations

import json
from functools import cache
from math import prod
from typing import Any

from simcluster.cluster import ClusterSpec
from simcluster.document import validate_data
from simcluster.model.spec.model_spec import ModelSpec
from simcluster.plan import Plan, make_plan
from simcluster.plan.spec import FrameworkSpec, ParallelSpec, TrainingSpec

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
    """A plan on one host of as many devices as the mesh has ranks; equal texts have one plan."""
    wanted = {"global_batch": 4 * mesh.get("data", 1), "micro_batch": 1, "seq_len": 8, **(training or {})}
    written = (model or LLAMA, wanted, {"mesh": mesh, **parallel})
    return _planned(devices or prod(mesh.values()), *map(json.dumps, written))


@cache
def _planned(devices: int, model: str, training: str, parallel: str) -> Plan:
    host = {"use": "cpu-server", "devices": devices, "network": {"nics": 1}}
    cluster = validate_data({"host": host, "hosts": 1}, ClusterSpec).build()
    return make_plan(
        validate_data(json.loads(model), ModelSpec).build(None),
        validate_data(json.loads(training), TrainingSpec),
        validate_data(json.loads(parallel), ParallelSpec),
        FrameworkSpec.load("ideal"),
        cluster,
    )
