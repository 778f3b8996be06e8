"""A scenario whose batches are read."""

from __future__ import annotations

from simcluster.scenario import Scenario
from tests.support.scenarios import TINY


def written(
    mesh=None, *, host="dgx-h100", hosts=1, micro_batches=4, steps=1, micro_batch=1, cluster=None, **data
):
    """A tiny model whose samples come through the hosts."""
    mesh = mesh or {"data": 8}
    ways = mesh.get("data", 1)
    return {
        "simcluster": 1,
        "name": "fed",
        "cluster": {"use": host, "hosts": hosts, **(cluster or {})},
        "model": TINY,
        "training": {
            "global_batch": micro_batches * micro_batch * ways,
            "micro_batch": micro_batch,
            "seq_len": 8,
            "precision": "fp16",
        },
        "data": data,
        "parallel": {"mesh": mesh},
        "run": {"steps": steps},
    }


def fed(mesh=None, **more):
    return Scenario.of(written(mesh, **more))
