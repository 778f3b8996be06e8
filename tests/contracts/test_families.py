"""Every family of models computes what one device computes, under every recipe that can split it.

Beside ``test_recipes``, which varies decoder-only transformers: here every pair of family, place and option
is met at least once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest

from simcluster.plan.schedule import Schedule
from simcluster.registry import kinds
from simcluster.scenario import Scenario
from simcluster.simulation import verify
from tests.contracts.test_recipes import pairwise


@dataclass(frozen=True)
class Family:
    """A small model, the length of its sequences, and the recipes that its length does not rule out."""

    model: dict
    seq_len: int = 8
    recipes: tuple[str, ...] = ("data", "megatron", "megatron_sp")


FAMILIES = {
    "bert": Family(
        {"family": "bert", "layers": 3, "hidden": 16, "heads": 4, "vocab": 61, "max_positions": 16}
    ),
    # n x n patches and a class token: 10 tokens divide by 2, never by 4.
    "vit": Family(
        {"family": "vit", "layers": 3, "hidden": 16, "heads": 4, "image": 12, "patch": 4, "classes": 6},
        seq_len=10,
    ),
}
MESHES = {
    "data": [{"data": 4}, {"pipeline": 2}, {"pipeline": 3, "data": 2}],
    "megatron": [{"tensor": 4}, {"data": 2, "tensor": 2}, {"pipeline": 3, "tensor": 2}],
    "megatron_sp": [{"tensor": 2}, {"pipeline": 2, "data": 2, "tensor": 2}, {"tensor": 2, "data": 3}],
}
PLACES = [
    (family, recipe, mesh)
    for family, found in FAMILIES.items()
    for recipe in found.recipes
    for mesh in MESHES[recipe]
]
OPTIONS = {
    "zero": [0, 1],
    "recompute": ["none", "all"],
    "schedule": sorted(kinds("simcluster.plan.schedules", Schedule)),
    "p2p": ["blocking", "overlapped"],
    "precision": ["fp32", "bf16"],
    "micro_batches": [1, 4],
}
ROWS = list(pairwise({"place": PLACES, **OPTIONS}))


def label(row) -> str:
    family, recipe, mesh = row["place"]
    shape = "x".join(f"{axis}{size}" for axis, size in mesh.items())
    return "-".join([family, recipe, shape, *(str(value) for name, value in row.items() if name != "place")])


def scenario(row) -> Scenario:
    name, recipe, mesh = row["place"]
    family, ranks = FAMILIES[name], math.prod(mesh.values())
    devices = max(size for size in (1, 2, 3, 4) if ranks % size == 0)
    return Scenario.of(
        {
            "simcluster": 1,
            "name": "family",
            "cluster": {
                "host": {"use": "cpu-server", "devices": devices, "network": {"nics": 1}},
                "hosts": ranks // devices,
            },
            "model": family.model,
            "training": {
                "global_batch": row["micro_batches"] * 2 * mesh.get("data", 1),
                "micro_batch": 2,
                "seq_len": family.seq_len,
                "precision": row["precision"],
            },
            "parallel": {
                "mesh": mesh,
                "recipe": recipe,
                "schedule": {"kind": row["schedule"], "p2p": row["p2p"]},
                "optimizer_sharding": {"zero": row["zero"]},
                "recompute": {"layers": row["recompute"]},
            },
        }
    )


@pytest.mark.parametrize("row", ROWS, ids=label)
def test_it_computes_what_one_device_computes(row):
    found = verify(scenario(row))
    assert found.agrees, f"{label(row)}: {found.fault or found.first_difference}"
    assert {each.what for each in found.comparisons} == {"loss", "gradient", "update"}
