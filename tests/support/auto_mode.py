"""Small models of every family in mode auto, for tests of its searches."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from simcluster.scenario import Scenario
from simcluster.simulation.compose import build_scenario
from tests.support.scenarios import TINY, TINY_GPT, scenario


def product(name, value, weight, *dims) -> dict[str, Any]:
    """A product of rows, what is contracted, and columns."""
    rows, inner, columns = dims
    labels = {"left": [rows, inner], "rights": [[inner, columns]], "results": [[rows, columns]]}
    return {"op": "matmul", "name": name, "inputs": [value, weight], **labels}


WRITTEN = {
    "feeds": {"images": {"shape": ["batch", 32]}, "labels": {"shape": ["batch"], "below": 16}},
    "parameters": {"w1": {"shape": [32, 64]}, "w2": {"shape": [64, 16]}},
    "operators": [
        product("up", "images", "w1", "batch", "pixels", "hidden"),
        {"op": "relu", "name": "relu", "inputs": ["up"], "labels": ["batch", "hidden"]},
        product("down", "relu", "w2", "batch", "hidden", "classes"),
        {
            "op": "cross_entropy",
            "name": "loss",
            "inputs": ["down", "labels"],
            "labels": ["batch", "classes"],
            "scale": "mean",
        },
    ],
    "loss": "loss",
}

MODELS: dict[str, dict[str, Any]] = {
    "llama": TINY,
    "gpt": TINY_GPT,
    "mixture": {**TINY, "layers": 2, "experts": {"count": 4, "top_k": 2, "ffn": 64}},
    "encoder-decoder": {
        "family": "t5",
        "encoder_layers": 2,
        "decoder_layers": 2,
        "hidden": 16,
        "heads": 4,
        "ffn": 32,
        "vocab": 64,
    },
    "wide-deep": {"use": "wide-deep", "vocab": 64},
    "resnet": {"use": "resnet-50"},
    "onnx": {"onnx": "networks/language-model.onnx"},
    "written graph": {"title": "two products", "graph": WRITTEN},
}
ONE_LAYER = {**TINY_GPT, "layers": 1}
"""For options, under any other name."""

SEARCHES = ("dynamic_programming", "recursive_programming", "sharding_propagation")
SEEDS = {
    "llama": ("layers.0.mlp.up", {"ffn": "data"}),
    "gpt": ("layers.0.mlp.up", {"ffn": "data"}),
    "mixture": ("layers.0.mlp.experts.up", {"experts": "data"}),
    "encoder-decoder": ("encoder.layers.0.mlp.up", {"ffn": "data"}),
    "wide-deep": ("embedding.deep.tokens", {"vocab": "data"}),
    "resnet": ("layers.0.conv1", {"batch": "data"}),
    "onnx": ("layers.*.h.0.up.MatMul", {"out": "data"}),
    "written graph": ("*.up", {"hidden": "data"}),
}
"""An operator that is configured for sharding propagation."""


@cache
def auto(model, search_mode, mesh=(("data", 4),), **parallel) -> Scenario:
    """A small model in mode auto."""
    written = {key: json.loads(value) for key, value in parallel.items()}
    if search_mode == "sharding_propagation":
        match, split = SEEDS[model]
        written["strategies"] = [{"match": match, "split": split}]
    seq = 1 if model in ("wide-deep", "resnet", "written graph") else 64 if model == "onnx" else 8
    made = scenario(
        dict(mesh),
        devices=4,
        model=MODELS.get(model, ONE_LAYER),
        mode="auto",
        search_mode=search_mode,
        training={"seq_len": seq},
        **written,
    )
    return Scenario(made.spec, made.document, Path("scenarios"))


@cache
def built(*which, **parallel):
    return build_scenario(auto(*which, **parallel))


def pasted(which: Scenario, strategies) -> Scenario:
    """The scenario in mode semi_auto with strategies as ``layouts --as-strategies`` prints them."""
    data = which.spec.model_dump(mode="json", exclude_unset=True)
    searched = ("search_mode", "auto")
    parallel = {key: value for key, value in data["parallel"].items() if key not in searched}
    data["parallel"] = {**parallel, "mode": "semi_auto", "strategies": strategies}
    return Scenario.of(data, which.folder)
