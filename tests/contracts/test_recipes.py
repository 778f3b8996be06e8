"""Every shipped recipe computes what one device computes: on several models and meshes, with any options.

In CI every pair of choices is met at least once; the full product is marked ``exhaustive``.
"""

from __future__ import annotations

import itertools
import math
import random

import pytest

from simcluster.plan.spec import RecipeSpec, schedules
from simcluster.scenario import Scenario
from simcluster.simulation import verify

RECIPES = sorted(RecipeSpec.entries())

MODELS = {
    "llama with grouped heads": {
        "layers": 3,
        "hidden": 16,
        "heads": 8,
        "kv_heads": 4,
        "ffn": 24,
        "vocab": 61,
    },
    "llama with one key head": {"layers": 3, "hidden": 16, "heads": 4, "kv_heads": 1, "ffn": 24, "vocab": 64},
    "gpt tied with biases": {
        "family": "gpt",
        "layers": 3,
        "hidden": 16,
        "heads": 4,
        "vocab": 61,
        "max_positions": 16,
    },
}
MESHES = [
    {"data": 4},
    {"pipeline": 2},
    {"pipeline": 3, "data": 2},
    {"data": 2, "pipeline": 2},
    {"data": 3, "replica": 2},
    {"tensor": 2},
    {"tensor": 4},
    {"data": 2, "tensor": 2},
    {"tensor": 2, "data": 3},
    {"pipeline": 3, "tensor": 2},
    {"pipeline": 2, "data": 2, "tensor": 2},
    {"tensor": 2, "pipeline": 2, "data": 2},
]
OPTIONS = {
    "model": sorted(MODELS),
    "zero": [0, 1],
    "recompute": ["none", "all"],
    "schedule": sorted(schedules()),
    "p2p": ["blocking", "overlapped"],
}
DETAILS = {
    "host": ["cpu-server", "dgx-h100"],
    "precision": ["fp32", "bf16"],
    "optimizer": ["sgd", "momentum", "adam", "adamw", "lamb"],
    "clip": [None, 0.05],
    "micro_batches": [1, 2, 5],
}
COMMON = {"data", "replica", "pipeline"}


def axes_of(recipe) -> set[str]:
    """The axes a recipe names itself."""
    return {
        axis
        for each in RecipeSpec.load(recipe).strategies
        for split in each.alternatives()
        for axes in split.values()
        for axis in axes
    }


def meshes_of(recipe):
    """Meshes on which no axis would stay unused."""
    return [mesh for mesh in MESHES if set(mesh) <= COMMON | axes_of(recipe)]


PLACES = [(recipe, mesh) for recipe in RECIPES for mesh in meshes_of(recipe)]


@pytest.mark.parametrize("recipe", RECIPES)
def test_some_mesh_has_every_axis_that_the_recipe_names(recipe):
    for axis in axes_of(recipe):
        assert any(axis in mesh for mesh in MESHES), f"add a mesh with axis '{axis}' to MESHES in {__file__}"


def scenario(recipe, mesh, choice) -> Scenario:
    ranks = math.prod(mesh.values())
    devices = max(size for size in (1, 2, 3, 4) if ranks % size == 0)
    ways = mesh.get("data", 1) * mesh.get("replica", 1)
    return Scenario.of(
        {
            "simcluster": 1,
            "name": "recipe",
            "cluster": {
                "host": {"use": choice["host"], "devices": devices, "network": {"nics": 1}},
                "hosts": ranks // devices,
            },
            "model": MODELS[choice["model"]],
            "training": {
                "global_batch": choice["micro_batches"] * 2 * ways,
                "micro_batch": 2,
                "seq_len": 8,
                "precision": choice["precision"],
                "optimizer": {"kind": choice["optimizer"], "clip": choice["clip"]},
            },
            "parallel": {
                "mesh": mesh,
                "roles": {"batch": [axis for axis in ("data", "replica") if axis in mesh]},
                "recipe": recipe,
                "schedule": {"kind": choice["schedule"], "p2p": choice["p2p"]},
                "optimizer_sharding": {"zero": choice["zero"]},
                "recompute": {"layers": choice["recompute"]},
            },
        }
    )


def prove(recipe, mesh, choice) -> None:
    found = verify(scenario(recipe, mesh, choice))
    assert found.agrees, f"{recipe} on {mesh} with {choice}: {found.fault or found.first_difference}"
    assert {each.what for each in found.comparisons} == {"loss", "gradient", "update"}


def pairwise(factors):
    """Rows in which every two values of two factors meet; greedy over seeded random rows."""
    names = list(factors)
    rng = random.Random(0)
    todo = {
        ((one, a), (two, b))
        for one, two in itertools.combinations(names, 2)
        for a in range(len(factors[one]))
        for b in range(len(factors[two]))
    }

    def pairs(row):
        return set(itertools.combinations(row.items(), 2))

    while todo:
        needed = min(todo)
        rows = []
        for _ in range(60):
            row = {name: rng.randrange(len(factors[name])) for name in names} | dict(needed)
            rows.append({name: row[name] for name in names})
        best = max(rows, key=lambda row: len(pairs(row) & todo))
        todo -= pairs(best)
        yield {name: factors[name][index] for name, index in best.items()}


ROWS = list(pairwise({"place": PLACES, **OPTIONS, **DETAILS}))


def label(row) -> str:
    recipe, mesh = row["place"]
    shape = "x".join(f"{axis}{size}" for axis, size in mesh.items())
    return "-".join([recipe, shape, *(str(value) for name, value in row.items() if name != "place")])


def test_every_two_choices_meet():
    factors = {"place": PLACES, **OPTIONS, **DETAILS}
    for one, two in itertools.combinations(factors, 2):
        met = [(row[one], row[two]) for row in ROWS]
        assert all(pair in met for pair in itertools.product(factors[one], factors[two]))


@pytest.mark.parametrize("row", ROWS, ids=label)
def test_it_computes_what_one_device_computes(row):
    prove(*row["place"], row)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("recipe", "mesh"), PLACES)
def test_the_full_product(recipe, mesh):
    details = itertools.cycle(itertools.product(*DETAILS.values()))
    for values in itertools.product(*OPTIONS.values()):
        choice = dict(zip((*OPTIONS, *DETAILS), (*values, *next(details)), strict=True))
        prove(recipe, mesh, choice)
