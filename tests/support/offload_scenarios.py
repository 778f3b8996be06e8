"""Small scenarios that offload."""

from __future__ import annotations

import math

from simcluster.scenario import Scenario
from simcluster.simulation import simulate
from tests.support.hosts import figure

MODEL = {
    "family": "gpt",
    "layers": 4,
    "hidden": 256,
    "heads": 4,
    "vocab": 1024,
    "max_positions": 64,
    "dropout": 0.1,
}
CATEGORIES = ("parameters", "gradients", "optimizer_states", "activations")
EVERYTHING = dict.fromkeys(CATEGORIES, "host")


def written(
    offload=None,
    mesh=None,
    *,
    host="dgx-a100",
    changed=None,
    micro_batches=2,
    optimizer="adamw",
    framework="ideal",
    precision="bf16",
    host_operators=(),
    **parallel,
):
    """A small model on one host, with something offloaded."""
    mesh = mesh or {"data": 1}
    ways = mesh.get("data", 1)
    return {
        "simcluster": 1,
        "name": "offloaded",
        "cluster": {
            "host": {"use": host, "devices": figure(math.prod(mesh.values())), **(changed or {})},
            "hosts": 1,
        },
        "model": MODEL,
        "training": {
            "global_batch": micro_batches * ways,
            "micro_batch": 1,
            "seq_len": 64,
            "precision": precision,
            "optimizer": optimizer,
        },
        "framework": framework,
        "parallel": {
            "mesh": mesh,
            **parallel,
            **({"offload": offload} if offload else {}),
            **({"host": list(host_operators)} if host_operators else {}),
        },
    }


def scenario(offload=None, mesh=None, **more):
    """The same, read."""
    return Scenario.of(written(offload, mesh, **more))


def copies(run, way):
    """(start, end) of every copy over a way, in order."""
    spans = run.spans
    names = list(spans.names["stream"])
    mine = spans["stream"] == names.index(f"offload ({way})")
    return list(zip(spans["start"][mine].tolist(), spans["end"][mine].tolist(), strict=True))


def peak(found, **more):
    return simulate(found, **more).documents["summary"]
