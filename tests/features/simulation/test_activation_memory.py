"""Activations in the simulated memory account against the published closed forms, within 1 %.

The forms are those of Korthikanti et al. (arXiv 2205.05198, table 2 and section 4): 16-bit activations,
dropout masks of a byte per element, fp32 logits. They leave out the row statistics of norms, which is why the
hidden size here is not tiny.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from simcluster.document import validate_data
from simcluster.plan.spec import FrameworkSpec
from simcluster.scenario import Scenario
from simcluster.simulation import simulate
from tests.support.covering import quick_at

B, S, H, A, V = 2, 512, 1024, 16, 51_200
SQUARE = A * S / H
"""``a s / h``: what one byte per attention score weighs in units of s b h."""

GPT = {
    "family": "gpt",
    "hidden": H,
    "heads": A,
    "vocab": V,
    "max_positions": S,
    "dropout": 0.1,
    "attention_dropout": 0.1,
}
LLAMA = {"hidden": H, "heads": A, "kv_heads": 4, "ffn": 2816, "vocab": V}
MEGATRON = {"attention": "unfused", "logits": "fp32"}
"""Megatron-LM of 2021: attention kernel by kernel, loss in fp32."""

ONE, TENSOR = {}, {"tensor": 4}
LOG_SUM_EXP = 4 * A / H


def peaks(model, mesh, recipe, *, seq=S, micro_batches=1, recompute="none", **profile):
    """Bytes of activations at their peak on every stage, in units of s b h."""
    ranks = math.prod(mesh.values())
    scenario = Scenario.of(
        {
            "simcluster": 1,
            "name": "activations",
            "cluster": {
                "host": {"use": "dgx-a100", "devices": ranks, "network": {"nics": 1}},
                "hosts": 1,
            },
            "model": model,
            "training": {"global_batch": micro_batches * B, "micro_batch": B, "seq_len": seq},
            "parallel": {"mesh": mesh, "recipe": recipe, "recompute": recompute},
        }
    )
    vars(scenario)["framework"] = validate_data({"use": "ideal", **profile}, FrameworkSpec)
    account = simulate(scenario).memory
    ours = account["category"] == account.index("category", "activations")
    found = []
    for index in range(account["class"].max() + 1):
        level = np.cumsum(account["bytes"][ours & (account["class"] == index)])
        found.append(level.max() / (seq * B * H))
    return found


def layer_and_rest(model, mesh, recipe, **options):
    """What one more layer keeps, and what embedding and head keep, in units of s b h."""
    (one,) = peaks({**model, "layers": 1}, mesh, recipe, **options)
    (two,) = peaks({**model, "layers": 2}, mesh, recipe, **options)
    return two - one, 2 * one - two


def close(value):
    return pytest.approx(value, rel=0.01)


# -- the table of the paper -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mesh", "recipe", "per_layer"),
    [
        (ONE, "data", 34 + 5 * SQUARE),
        (TENSOR, "megatron", 10 + 24 / 4 + 5 * SQUARE / 4),
        (TENSOR, "megatron_sp", (34 + 5 * SQUARE) / 4),
    ],
)
def test_a_layer_keeps_what_the_paper_says(mesh, recipe, per_layer):
    layer, _ = layer_and_rest(GPT, mesh, recipe, **MEGATRON)
    assert layer == close(per_layer)


@pytest.mark.parametrize(
    ("mesh", "recipe", "embedding", "shared"),
    [(ONE, "data", 1, 4), (TENSOR, "megatron", 1, 4), (TENSOR, "megatron_sp", 1 / 4, 4 / 4)],
)
def test_embedding_and_head_keep_what_the_paper_says(mesh, recipe, embedding, shared):
    """The mask behind the embedding; final norm's input and output; fp32 logits: 4 s b h (1 + V / h)."""
    _, rest = layer_and_rest(GPT, mesh, recipe, **MEGATRON)
    assert rest == close(embedding + shared + 4 * V / H / mesh.get("tensor", 1))


@pytest.mark.parametrize(
    ("mesh", "recipe", "per_layer"),
    quick_at([(ONE, "data", 2), (TENSOR, "megatron", 2), (TENSOR, "megatron_sp", 0.5)], 2),
)
def test_full_recomputation_keeps_the_input_of_a_layer(mesh, recipe, per_layer):
    layer, _ = layer_and_rest(GPT, mesh, recipe, recompute="all", **MEGATRON)
    assert layer == close(per_layer)


@pytest.mark.parametrize(
    ("mesh", "recipe", "per_layer"),
    quick_at([(ONE, "data", 34), (TENSOR, "megatron", 10 + 24 / 4), (TENSOR, "megatron_sp", 34 / 4)], 2),
)
def test_selective_recomputation_keeps_no_scores(mesh, recipe, per_layer):
    core = ["layers.*.attention.core*"]
    again = {"operators": core, "keep_outputs": core}
    layer, _ = layer_and_rest(GPT, mesh, recipe, recompute=again, **MEGATRON)
    assert layer == close(per_layer)


def test_of_an_input_every_tensor_rank_keeps_a_part():
    sliced = {"layers": "all", "slice": True}
    layer, _ = layer_and_rest(GPT, TENSOR, "megatron", recompute=sliced, **MEGATRON)
    assert layer == close(2 / 4)


@pytest.mark.parametrize(
    ("recipe", "per_layer"), quick_at([("megatron", 2 + 2), ("megatron_sp", 2 / 4 + 2 / 4 + 2 * 2)], 1)
)
def test_results_of_collectives_are_kept_if_these_do_not_run_again(recipe, per_layer):
    """The sum behind attention's projection, whole or scattered; what is gathered before both blocks, whole.
    Nobody needs the sum behind the MLP."""
    model = {**GPT, "dropout": 0.0}
    kept = {"layers": "all", "collectives": False}
    layer, _ = layer_and_rest(model, TENSOR, recipe, recompute=kept, **MEGATRON)
    assert layer == close(per_layer)


@pytest.mark.parametrize(
    ("mesh", "recipe", "per_layer"),
    quick_at(
        [
            (ONE, "data", 34 + LOG_SUM_EXP),
            (TENSOR, "megatron", 10 + (24 + LOG_SUM_EXP) / 4),
            (TENSOR, "megatron_sp", (34 + LOG_SUM_EXP) / 4),
        ],
        2,
    ),
)
def test_flash_attention_keeps_no_scores(mesh, recipe, per_layer):
    layer, _ = layer_and_rest(GPT, mesh, recipe, logits="fp32")
    assert layer == close(per_layer)


@pytest.mark.parametrize("stages", quick_at([2, 4], 1))
def test_the_first_stage_of_1f1b_holds_a_micro_batch_per_stage(stages):
    """P micro-batches of l / p layers, and as many masks of the embedding.

    What the paper leaves out: an output that is on its way, and an input that is received one action ahead.
    """
    model = {**GPT, "layers": 8}
    held = peaks(model, {"pipeline": stages}, "data", micro_batches=2 * stages, **MEGATRON)
    layer = 34 + 5 * SQUARE
    assert held[0] == close(8 * layer + stages + 2)
    for stage in range(1, stages - 1):
        assert held[stage] == close((stages - stage) * 8 / stages * layer + 2 + 2)
    assert held[-1] == close(8 / stages * layer + 4 * (1 + V / H) + 2)


def test_fewer_micro_batches_than_stages_are_all_that_is_held():
    held = peaks({**GPT, "layers": 8}, {"pipeline": 4}, "data", micro_batches=2, **MEGATRON)
    assert held[0] == close(2 * 2 * (34 + 5 * SQUARE) + 2 + 2)


# -- the same derived for other choices -----------------------------------------------------------------

HEADS = 2 + 2 * 4 / 16 * 2 + 2
"""Queries, keys and values of 4 key-value heads of 16, and what attention gives the projection."""


@pytest.mark.parametrize(
    ("mesh", "recipe", "whole", "split"),
    quick_at(
        [
            (ONE, "data", 8, 1),
            (TENSOR, "megatron", 8, 4),
            (TENSOR, "megatron_sp", 8 / 4, 4),
        ],
        1,
    ),
)
def test_gated_mlp_and_grouped_heads(mesh, recipe, whole, split):
    """Two norms with input and output; the gate, what it gates and their product: 6 s b f."""
    layer, _ = layer_and_rest(LLAMA, mesh, recipe)
    assert layer == close(whole + (HEADS + 6 * 2816 / H + LOG_SUM_EXP) / split)


@pytest.mark.parametrize(
    ("changes", "change"),
    quick_at(
        [
            ({"dropout": 0.0}, -2),
            ({"attention_dropout": 0.0}, -3 * SQUARE),
            ({"activation": "relu"}, -8),
            ({"activation": "squared_relu"}, 0),
            ({"activation": "geglu", "ffn": 4 * H}, 8),
            ({"norm": "rms"}, 0),
            ({"bias": False}, 0),
            ({"qk_norm": True}, 4),
            ({"positions": "rotary"}, 0),
            ({"positions": "alibi"}, 0),
            ({"positions": "none"}, 0),
            ({"kv_heads": 4}, -2 * 2 * 3 / 4),
            ({"window": 64}, 0),
            ({"ffn": 2 * H}, -8),
        ],
        1,
        2,
        7,
        11,
    ),
    ids=str,
)
def test_what_a_choice_changes(changes, change):
    """ReLU keeps its output only, which the projection behind it keeps anyway; head norms keep their input;
    without dropout the softmax's output is what the product with values keeps; a gate adds its own input."""
    layer, _ = layer_and_rest({**GPT, **changes}, ONE, "data", **MEGATRON)
    assert layer == close(34 + 5 * SQUARE + change)


def test_a_norm_behind_the_embedding_keeps_its_input():
    _, without = layer_and_rest({**GPT, "dropout": 0.0}, ONE, "data")
    _, with_norm = layer_and_rest({**GPT, "dropout": 0.0, "embedding_norm": True}, ONE, "data")
    assert with_norm - without == close(2 + 2 * 4 / H)


def test_logits_in_the_compute_type_take_half():
    _, full = layer_and_rest(GPT, ONE, "data", logits="fp32")
    _, half = layer_and_rest(GPT, ONE, "data")
    assert full - half == close(2 * V / H)


@pytest.mark.parametrize(
    ("mesh", "recipe", "per_layer"),
    quick_at(
        [
            (ONE, "data", 34 + 5 * SQUARE),
            (TENSOR, "megatron", 10 + 24 / 4 + 5 * SQUARE / 4),
            (TENSOR, "megatron_sp", (34 + 5 * SQUARE) / 4),
        ],
        0,
    ),
)
def test_a_layer_of_bert_keeps_as_much(mesh, recipe, per_layer):
    """Norms stand behind the residual sums, not before: what they keep is the same."""
    bert = {name: value for name, value in GPT.items() if name != "family"} | {"family": "bert"}
    layer, _ = layer_and_rest(bert, mesh, recipe, **MEGATRON)
    assert layer == close(per_layer)


@pytest.mark.parametrize(
    ("mesh", "recipe", "split"),
    quick_at([(ONE, "data", 1), (TENSOR, "megatron", 4)], 1),
    ids=["one", "tensor"],
)
def test_a_layer_of_vit_keeps_as_much_without_dropout(mesh, recipe, split):
    """No masks; the softmax's output is what the product with values keeps."""
    image, patch = 352, 16
    seq = (image // patch) ** 2 + 1
    vit = {"family": "vit", "hidden": H, "heads": A, "image": image, "patch": patch, "classes": 1000}
    layer, _ = layer_and_rest(vit, mesh, recipe, seq=seq, **MEGATRON)
    assert layer == close(8 + (24 + 2 * A * seq / H) / split)
