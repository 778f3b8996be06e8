"""Every family of models computes what one device computes, under every recipe that can split it.

Beside ``test_recipes``, which varies decoder-only transformers: here every family and every recipe on a mesh
meets each other and every option; each family under each recipe on each mesh with every option is marked
``exhaustive``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest

from simcluster.document import validate_data
from simcluster.model import Phase
from simcluster.model.spec.model_spec import ModelSpec
from simcluster.plan.spec import FrameworkSpec
from simcluster.scenario import Scenario
from simcluster.simulation import simulate, verify
from simcluster.simulation.compose.build import build_scenario
from tests.support.covering import covering, thorough_but_few
from tests.support.pipeline_scenarios import p2p_of
from tests.support.recipe_choices import SINGLE


@dataclass(frozen=True)
class Family:
    """A small model, the length of its sequences, and the recipes that its length does not rule out."""

    model: dict
    seq_len: int = 8
    recipes: tuple[str, ...] = ("data", "megatron", "megatron_sp", "pangu")


DROPOUT = {"dropout": 0.1, "attention_dropout": 0.2}
BERT = {"family": "bert", "layers": 3, "hidden": 16, "heads": 4, "vocab": 61, "max_positions": 16}
VIT = {"family": "vit", "layers": 3, "hidden": 16, "heads": 4, "image": 12, "patch": 4, "classes": 6}
T5 = {"family": "t5", "encoder_layers": 2, "decoder_layers": 2, "vocab": 61, "buckets": 8, "max_distance": 6}
T5 |= {"hidden": 16, "heads": 4, "head_dim": 8, "ffn": 24}

FAMILIES = {
    "bert": Family(BERT | DROPOUT, recipes=("data", "megatron", "megatron_sp")),
    # n x n patches and a class token: 10 tokens divide by 2, never by 4.
    "vit": Family(VIT | DROPOUT, seq_len=10, recipes=("data", "megatron", "megatron_sp")),
    "t5": Family(T5),
    "t5 1.1": Family(
        T5 | DROPOUT | {"decoder_layers": 1, "activation": "geglu", "tied": False, "decoder_seq_len": 6},
        recipes=("megatron", "megatron_sp"),
    ),
}
MESHES = {
    "data": [{"data": 4}, {"pipeline": 3, "data": 2}],
    "megatron": [{"tensor": 4}, {"pipeline": 3, "tensor": 2}],
    "megatron_sp": [{"tensor": 2, "data": 3}, {"pipeline": 2, "data": 2, "tensor": 2}],
    "pangu": [{"pipeline": 2, "tensor": 2}],
}
PLACES = [
    (family, recipe, mesh)
    for family, found in FAMILIES.items()
    for recipe in found.recipes
    for mesh in MESHES[recipe]
]
OPTIONS = {
    "sharding": [{"zero": 0}, {"zero": 1}, {"zero": 2}, "fsdp"],
    "recompute": ["none", "all"],
    "schedule": sorted(SINGLE),
    "p2p": ["blocking", "overlapped"],
    "precision": ["fp32", "bf16"],
    "attention": ["flash", "unfused"],
    "logits": ["compute", "fp32"],
    "micro_batches": [1, 4],
}
SPLITS = [(recipe, mesh) for recipe, meshes in MESHES.items() for mesh in meshes]
EVERYWHERE = covering({"place": PLACES, **OPTIONS})


def splits(row) -> bool:
    """Whether the recipe of a row is one of its family's."""
    return "family" not in row or "split" not in row or (row["family"], *row["split"]) in PLACES


def placed(row):
    """The row with its family, its recipe and its mesh as one choice."""
    others = {name: row[name] for name in OPTIONS}
    return {"place": (row["family"], *row["split"]), **others}


ROWS = list(
    map(
        placed,
        covering({"family": [*FAMILIES], "split": SPLITS, **OPTIONS}, legal=splits, small=("micro_batches",)),
    )
)


def label(row) -> str:
    family, recipe, mesh = row["place"]
    shape = "x".join(f"{axis}{size}" for axis, size in mesh.items())
    return "-".join([family, recipe, shape, *(str(value) for name, value in row.items() if name != "place")])


def scenario(row) -> Scenario:
    name, recipe, mesh = row["place"]
    family, ranks = FAMILIES[name], math.prod(mesh.values())
    schedule = {"kind": row["schedule"]}
    p2p = p2p_of(schedule, {"stages": mesh.get("pipeline", 1), "p2p": row["p2p"]})
    devices = max(size for size in (1, 2, 3, 4) if ranks % size == 0)
    made = Scenario.of(
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
                "schedule": {**schedule, "p2p": p2p},
                "optimizer_sharding": row["sharding"],
                "recompute": {"layers": row["recompute"]},
            },
        }
    )
    profile = {name: row[name] for name in ("attention", "logits")}
    vars(made)["framework"] = validate_data({"use": "ideal", **profile}, FrameworkSpec)
    return made


def prove(row) -> None:
    found = verify(scenario(row))
    assert found.agrees, f"{label(row)}: {found.fault or found.first_difference}"
    assert {each.what for each in found.comparisons} == {"loss", "gradient", "update"}


@pytest.mark.parametrize("row", thorough_but_few(ROWS), ids=label)
def test_it_computes_what_one_device_computes(row):
    prove(row)


@pytest.mark.exhaustive
@pytest.mark.parametrize("row", EVERYWHERE, ids=label)
def test_it_does_so_with_every_option_in_every_place(row):
    prove(row)


def test_every_family_is_split_in_every_way_that_it_can_be():
    shown = [row["place"] for row in ROWS]
    assert all(place in shown for place in PLACES)


@pytest.mark.parametrize("recipe", ["megatron", "megatron_sp"])
@pytest.mark.parametrize("family", FAMILIES)
def test_no_large_operator_of_a_layer_is_replicated(family, recipe):
    """What is replicated costs as much on every rank as on one: a recipe must not forget a matmul."""
    row = {"place": (family, recipe, {"tensor": 2}), **{name: each[0] for name, each in OPTIONS.items()}}
    for attention in OPTIONS["attention"]:
        plan = build_scenario(scenario({**row, "attention": attention})).plan
        for each in plan.logical.instances:
            for node in plan.logical.block_of(each).phase(Phase.FORWARD):
                if "layers." in each.name and node.operator.family in ("matmul", "attention", "softmax"):
                    strategy = plan.strategies.of(each.name)[node.name]
                    assert strategy.splits == (("ffn" if "mlp" in node.name else "heads", ("tensor",)),), node


SIMULATED = {
    "bert-base": ("dgx-a100", {"data": 8}, {}),
    "bert-large": ("dgx-a100", {"data": 8}, {}),
    "vit-b16": ("dgx-h100", {"data": 8}, {"seq_len": 197}),
    "vit-l16": ("dgx-h100", {"data": 8}, {"seq_len": 197}),
    "vit-h14": ("dgx-h100", {"data": 8}, {"seq_len": 257}),
    "t5-small": ("dgx-a100", {"data": 8}, {}),
    "t5-base": ("dgx-a100", {"data": 8}, {}),
    "t5-large": ("dgx-a100", {"data": 4, "tensor": 2}, {}),
    "t5-3b": ("dgx-a100", {"pipeline": 2, "data": 2, "tensor": 2}, {"recipe": "megatron_sp"}),
    "t5-11b": ("dgx-a100", {"tensor": 8}, {}),
}


def test_every_structure_of_its_own_is_simulated():
    with_classes = {
        name for name in ModelSpec.entries() if ModelSpec.load(name).family in ("bert", "t5", "vit")
    }
    assert with_classes == set(SIMULATED)


@pytest.mark.parametrize("name", SIMULATED)
def test_a_published_size_runs_on_one_host(name):
    """It fits, and reaches a share of peak that matrices of this size allow."""
    host, mesh, options = SIMULATED[name]
    made = Scenario.of(
        {
            "simcluster": 1,
            "name": name,
            "cluster": {"use": host, "hosts": 1},
            "model": {"use": name},
            "training": {
                "global_batch": 64,
                "micro_batch": 8 // mesh.get("pipeline", 1),
                "seq_len": options.get("seq_len", 512),
            },
            "parallel": {"mesh": mesh} | ({"recipe": options["recipe"]} if "recipe" in options else {}),
        }
    )
    summary = simulate(made).documents["summary"]
    assert summary["fits"]
    assert 0.1 < summary["mfu"] < 0.7
    assert summary["samples_per_s"] * summary["step_time_s"] == pytest.approx(64)
