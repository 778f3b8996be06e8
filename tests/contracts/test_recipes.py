"""Every shipped recipe computes what one device computes: on several models and meshes, with any options.

In CI every recipe, every mesh and every model meets every other choice; those that have nothing to do with
recipes meet each other in ``test_compositions.py``. The full product of model, mesh, sharding and
recomputation, with details drawn for each, is marked ``exhaustive``.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter

import pytest

from simcluster.document import validate_data
from simcluster.layout import Movement
from simcluster.model import Phase
from simcluster.plan.spec import FrameworkSpec, RecipeSpec
from simcluster.scenario import Scenario
from simcluster.simulation import build_scenario, verify
from tests.support.covering import covering, thorough_but_few
from tests.support.pipeline_scenarios import p2p_of
from tests.support.recipe_choices import SINGLE, label

RECIPES = sorted(RecipeSpec.entries())

GPT = {
    "family": "gpt",
    "layers": 3,
    "hidden": 16,
    "heads": 4,
    "ffn": 32,
    "vocab": 64,
    "positions": "rotary",
}
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
VARIANTS = {
    "gpt with dropout everywhere": {
        "family": "gpt",
        "layers": 3,
        "hidden": 16,
        "heads": 4,
        "vocab": 61,
        "max_positions": 16,
        "dropout": 0.1,
        "attention_dropout": 0.2,
    },
    "bloom": {
        "family": "gpt",
        "layers": 3,
        "hidden": 16,
        "heads": 4,
        "vocab": 64,
        "positions": "alibi",
        "embedding_norm": True,
        "embedding_dropout": 0.1,
    },
    "opt": {
        "family": "gpt",
        "layers": 3,
        "hidden": 16,
        "heads": 4,
        "vocab": 64,
        "max_positions": 16,
        "position_offset": 2,
        "activation": "relu",
        "dropout": 0.1,
        "embedding_dropout": 0.0,
    },
    "pangu-alpha": {
        "family": "gpt",
        "layers": 3,
        "hidden": 16,
        "heads": 4,
        "vocab": 61,
        "max_positions": 16,
        "query_layer": True,
        "dropout": 0.1,
    },
    "qwen with query bias and head norms in a window": {
        "layers": 3,
        "hidden": 16,
        "heads": 8,
        "kv_heads": 2,
        "head_dim": 4,
        "ffn": 24,
        "vocab": 61,
        "qkv_bias": True,
        "qk_norm": True,
        "window": 3,
        "tied": True,
    },
    "gemma 2": {
        "layers": 3,
        "hidden": 16,
        "heads": 4,
        "kv_heads": 2,
        "ffn": 24,
        "vocab": 64,
        "head_dim": 8,
        "activation": "geglu",
        "post_norms": True,
        "capped_logits": True,
        "tied": True,
    },
    "nemotron": {
        "layers": 3,
        "hidden": 16,
        "heads": 4,
        "ffn": 32,
        "vocab": 64,
        "norm": "layer",
        "activation": "squared_relu",
        "rotary_fraction": 0.5,
    },
    "mpt without biases": {
        "family": "gpt",
        "layers": 3,
        "hidden": 16,
        "heads": 4,
        "ffn": 32,
        "vocab": 64,
        "positions": "alibi",
        "bias": False,
        "norm_bias": False,
        "activation": "geglu",
    },
    "gpt-neox": {
        **GPT,
        "tied": False,
        "rotary_fraction": 0.5,
        "parallel": "two_norms",
    },
    "gpt-j": {
        **GPT,
        "tied": False,
        "parallel": "one_norm",
        "qkv_bias": False,
        "out_bias": False,
    },
    "phi with dropout": {
        **GPT,
        "tied": False,
        "parallel": "one_norm",
        "dropout": 0.1,
    },
    "falcon": {
        **GPT,
        "bias": False,
        "tied": True,
        "kv_heads": 2,
        "parallel": "two_norms",
    },
    "no positions": {"layers": 3, "hidden": 16, "heads": 4, "ffn": 24, "vocab": 64, "positions": "none"},
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
    {"data": 2, "tensor_y": 2, "tensor_x": 2},
]
SHARDINGS = {
    "the recipe's": None,
    "zero 0": {"zero": 0},
    "zero 1": {"zero": 1},
    "zero 2": {"zero": 2},
    "zero 3": {"zero": 3},
    "fsdp kept": {"fsdp": {"reshard_after_forward": False}},
    "mindspore 1": {"mindspore": "level1"},
    "mindspore 3": {"mindspore": "level3"},
    "hybrid": {"zero": 3, "axes": "data"},
}
RECOMPUTE = {
    "nothing": {},
    "all": {"layers": "all"},
    "some": {"layers": 1, "operators": ["layers.*.attention.{norm,qkv*,core}", "layers.*.mlp.activation"]},
}
OPTIONS = {
    "model": sorted(MODELS),
    "sharding": sorted(SHARDINGS),
    "recompute": sorted(RECOMPUTE),
}
DETAILS = {
    "schedule": sorted(SINGLE),
    "p2p": ["blocking", "overlapped"],
    "attention": ["flash", "unfused"],
    "logits": ["compute", "fp32"],
    "host": ["cpu-server", "dgx-h100"],
    "precision": ["fp32", "bf16"],
    "optimizer": ["sgd", "momentum", "adam", "adamw", "lamb"],
    "clip": [None, 0.05],
    "micro_batches": [1, 2, 5],
}
COMMON = {"data", "replica", "pipeline"}


ELSEWHERE = {"experts"}
"""Roles of mixtures of experts, which have a file of their own: test_experts.py."""


def axes_of(recipe) -> set[str]:
    """The axes a recipe names itself."""
    return {
        axis
        for each in RecipeSpec.load(recipe).strategies
        for split in each.alternatives()
        for axes in split.values()
        for axis in axes
        if axis not in ELSEWHERE
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
    schedule = {"kind": choice["schedule"]}
    p2p = p2p_of(schedule, {"stages": mesh.get("pipeline", 1), "p2p": choice["p2p"]})
    sharding = SHARDINGS[choice["sharding"]]
    if "data" not in mesh and sharding is not None:
        sharding = {name: value for name, value in sharding.items() if name != "axes"}
    return Scenario.of(
        {
            "simcluster": 1,
            "name": "recipe",
            "cluster": {
                "host": {"use": choice["host"], "devices": devices, "network": {"nics": 1}},
                "hosts": ranks // devices,
            },
            "model": (MODELS | VARIANTS)[choice["model"]],
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
                "schedule": {**schedule, "p2p": p2p},
                "optimizer_sharding": sharding,
                "recompute": RECOMPUTE[choice["recompute"]],
            },
        }
    )


def prove(recipe, mesh, choice) -> None:
    which = scenario(recipe, mesh, choice)
    profile = {name: choice[name] for name in ("attention", "logits")}
    vars(which)["framework"] = validate_data({"use": "ideal", **profile}, FrameworkSpec)
    found = verify(which)
    assert found.agrees, f"{recipe} on {mesh} with {choice}: {found.fault or found.first_difference}"
    assert {each.what for each in found.comparisons} == {"loss", "gradient", "update"}


FACTORS = {"recipe": RECIPES, "mesh": MESHES, **OPTIONS, **DETAILS}


def divides(model: str, mesh) -> bool:
    """Whether heads of keys divide over a grid of tensor ranks, which does not repeat them."""
    sizes = (MODELS | VARIANTS)[model]
    heads = sizes.get("kv_heads", sizes["heads"]) if isinstance(sizes, dict) else 0
    return heads % (mesh.get("tensor_x", 1) * mesh.get("tensor_y", 1)) == 0


def fits(row) -> bool:
    if "model" in row and "mesh" in row and not divides(row["model"], row["mesh"]):
        return False
    return "recipe" not in row or "mesh" not in row or (row["recipe"], row["mesh"]) in PLACES


def placed(row):
    """The row with its recipe and its mesh as one choice."""
    others = {name: value for name, value in row.items() if name not in ("recipe", "mesh")}
    return {"place": (row["recipe"], row["mesh"]), **others}


COMPOSED = {
    "mesh",
    "sharding",
    "recompute",
    "schedule",
    "p2p",
    "precision",
    "optimizer",
    "clip",
    "micro_batches",
}
"""Choices that meet each other, whatever the recipe, in ``test_compositions.py``."""
ROWS = [placed(row) for row in covering(FACTORS, legal=fits, elsewhere=COMPOSED, small=("micro_batches",))]
RICHEST = {
    recipe: max(meshes_of(recipe), key=lambda mesh: (len(mesh), math.prod(mesh.values())))
    for recipe in RECIPES
}
"""The mesh with the most axes of every recipe: what a variant of a model changes shows there."""
VARIED = [
    {**row, "place": (recipe, RICHEST[recipe]), "model": model}
    for (recipe, model), row in zip(
        itertools.product(RECIPES, sorted(VARIANTS)), itertools.cycle(covering(OPTIONS | DETAILS))
    )
    if divides(model, RICHEST[recipe])
]


def test_every_two_choices_meet_but_for_those_that_meet_elsewhere():
    rows = [{**row, "recipe": row["place"][0], "mesh": row["place"][1]} for row in ROWS]
    for one, two in itertools.combinations(FACTORS, 2):
        if {one, two} <= COMPOSED:
            continue
        met = [(row[one], row[two]) for row in rows]
        pairs = itertools.product(FACTORS[one], FACTORS[two])
        assert all(pair in met for pair in pairs if fits(dict(zip((one, two), pair, strict=True))))


def test_every_recipe_meets_every_variant():
    met = {(row["place"][0], row["model"]) for row in VARIED}
    pairs = itertools.product(RECIPES, VARIANTS)
    assert met == {(recipe, model) for recipe, model in pairs if divides(model, RICHEST[recipe])}


@pytest.mark.parametrize("row", thorough_but_few([*ROWS, *VARIED], ["model"]), ids=label)
def test_it_computes_what_one_device_computes(row):
    prove(*row["place"], row)


FORWARD = {
    "megatron": {"all_reduce": 2},
    "pangu": {"all_reduce": 2},
    "megatron_sp": {"all_gather": 2, "reduce_scatter": 2},
}
"""What a layer's forward sends over tensor ranks (arXiv 1909.08053, section 3; 2205.05198, section 4.2.2)."""


def sent_by_a_layer(recipe, model):
    """Of attention beside the MLP the sum is reduced, unless dropout takes each by itself.

    What one norm gives is gathered once.
    """
    kind, dropout = model.get("parallel"), model.get("dropout")
    both = dict(FORWARD[recipe])
    if kind == "one_norm" and "all_gather" in both:
        both["all_gather"] = 1
    if kind and not dropout:
        both["all_reduce" if "all_reduce" in both else "reduce_scatter"] = 1
    return both


@pytest.mark.combinations
@pytest.mark.parametrize("recipe", FORWARD)
@pytest.mark.parametrize("attention", ["flash", "unfused"])
@pytest.mark.parametrize("model", sorted(MODELS | VARIANTS))
def test_no_part_of_a_layer_is_forgotten(recipe, attention, model):
    """An operator that a recipe left out would have to be gathered for, and its result split again."""
    choice = {name: values[0] for name, values in (OPTIONS | DETAILS).items()} | {"model": model}
    which = scenario(recipe, {"tensor": 2}, choice)
    vars(which)["framework"] = validate_data({"use": "ideal", "attention": attention}, FrameworkSpec)
    graph = build_scenario(which).plan.graph
    for instance in graph.instances:
        if instance.name.startswith("layers."):
            sent = Counter(
                str(node.operator.kind)
                for node in graph.block_of(instance).phase(Phase.FORWARD)
                if isinstance(node.operator, Movement) and node.operator.is_collective
            )
            assert sent == sent_by_a_layer(recipe, (MODELS | VARIANTS)[model]), instance.name


@pytest.mark.exhaustive
@pytest.mark.parametrize(("recipe", "mesh"), PLACES)
def test_the_full_product(recipe, mesh):
    rng = random.Random(f"{recipe} {mesh}")
    for values in itertools.product(*OPTIONS.values()):
        details = {name: rng.choice(choices) for name, choices in DETAILS.items()}
        prove(recipe, mesh, dict(zip(OPTIONS, values, strict=True)) | details)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("recipe", "mesh"), PLACES)
def test_every_variant_on_every_mesh(recipe, mesh):
    others = {name: values for name, values in (OPTIONS | DETAILS).items() if name != "model"}
    rows = itertools.cycle(covering(others))
    for model, recompute in itertools.product(VARIANTS, RECOMPUTE):
        prove(recipe, mesh, next(rows) | {"model": model, "recompute": recompute})
