"""Decoders of the hub without a catalog entry: published numbers of parameters, windows, refused types."""

from __future__ import annotations

from pathlib import Path

import pytest

import simcluster
from simcluster.document import validate_data
from simcluster.errors import ScenarioError
from simcluster.model.huggingface.model_types import TYPES
from simcluster.model.spec.model_spec import ModelSpec
from simcluster.work import DType
from tests.support.huggingface_configs import load

SLIDING, FULL = "sliding_attention", "full_attention"


def decoder(kind, layers, hidden, heads, kv_heads, ffn, vocab, **more):
    return {
        "model_type": kind,
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "intermediate_size": ffn,
        "vocab_size": vocab,
        "max_position_embeddings": 8192,
    } | more


GEMMA = {"head_dim": 256, "hidden_activation": "gelu_pytorch_tanh"}
CAPS = {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0, "sliding_window": 4096}
OLMOE = {"num_experts": 64, "num_experts_per_tok": 8, "norm_topk_prob": False}
QWEN_MOE = {
    "moe_intermediate_size": 1408,
    "shared_expert_intermediate_size": 5632,
    "num_experts": 60,
    "num_experts_per_tok": 4,
    "norm_topk_prob": False,
}
CHATGLM = {
    "model_type": "chatglm",
    "add_qkv_bias": True,
    "ffn_hidden_size": 13696,
    "hidden_size": 4096,
    "kv_channels": 128,
    "multi_query_attention": True,
    "multi_query_group_num": 2,
    "num_attention_heads": 32,
    "num_layers": 28,
    "padded_vocab_size": 65024,
}
STARCODER = {"n_layer": 40, "n_embd": 6144, "n_head": 48, "n_inner": 24576, "n_positions": 8192}
HEADS = 2 * 128 - 2 * 2048
"""Weights of norms of queries and keys that are head by head here, over all heads there."""
GEMMA3 = decoder("gemma3_text", 26, 1152, 4, 1, 6912, 262144, **GEMMA, sliding_window=512)
GEMMA2 = decoder("gemma2", 26, 2304, 8, 4, 9216, 256000, **GEMMA, **CAPS)
SMOLLM = decoder("smollm3", 36, 2048, 16, 4, 11008, 128256, no_rope_layers=[1, 1, 1, 0] * 9)
LLAMA4 = {"num_local_experts": 16, "num_experts_per_tok": 1, "attention_chunk_size": None, "head_dim": 128}
SCOUT = decoder("llama4_text", 48, 5120, 40, 8, 8192, 202048, **LLAMA4)
OLMO3 = decoder("olmo3", 32, 4096, 32, 32, 11008, 100278, sliding_window=4096)


@pytest.mark.parametrize(
    ("config", "count"),
    [
        (decoder("gemma", 28, 3072, 16, 16, 24576, 256000, head_dim=256, hidden_act="gelu"), 8_537_680_896),
        (GEMMA2, 2_614_341_888),
        (GEMMA3, 999_885_952),
        (SMOLLM, 3_075_098_624),
        (decoder("olmoe", 16, 2048, 16, 16, 1024, 50304, **OLMOE), 6_919_161_856 + 16 * HEADS),
        # Without the gates of shared experts, of 2,048 weights in each of 24 layers.
        (decoder("qwen2_moe", 24, 2048, 16, 16, 5632, 151936, **QWEN_MOE), 14_315_784_192 - 24 * 2048),
        (decoder("starcoder2", 30, 3072, 24, 2, 12288, 49152, use_bias=True), 3_030_371_328),
        (decoder("glm4", 40, 4096, 32, 2, 13696, 151552, attention_bias=True), 9_400_279_040),
        (CHATGLM, 6_243_584_000),
        (decoder("stablelm", 24, 2048, 32, 32, 5632, 100352, use_qkv_bias=True), 1_644_515_328),
        ({"model_type": "gpt_bigcode", "vocab_size": 49152, **STARCODER}, 15_517_456_384),
    ],
    ids=lambda value: value["model_type"] if isinstance(value, dict) else "",
)
def test_published_numbers_of_parameters(tmp_path, config, count):
    assert load(tmp_path, config).num_parameters == count


@pytest.mark.parametrize(
    ("config", "windows"),
    [
        (GEMMA2, (4096, 2, 0)),
        (GEMMA3, (512, 1, 6)),
        (GEMMA3 | {"sliding_window_pattern": 4}, (512, 1, 4)),
        (GEMMA3 | {"layer_types": ([SLIDING] * 5 + [FULL]) * 4 + [SLIDING] * 2}, (512, 1, 6)),
        (GEMMA3 | {"layer_types": [FULL] * 26}, (0, 1, 0)),
        (OLMO3 | {"layer_types": ([SLIDING] * 3 + [FULL]) * 8}, (4096, 1, 4)),
        (OLMO3 | {"layer_types": [SLIDING, FULL] * 16}, (4096, 2, 0)),
    ],
)
def test_which_layers_have_a_window(tmp_path, config, windows):
    model = load(tmp_path, config)
    assert (model.window, model.window_every, model.full_attention_every) == windows


def test_layers_with_a_window_and_without(tmp_path):
    model = load(tmp_path, GEMMA3)
    instances = [instance.block for instance in model.graph(1, 1024, DType.BF16, 1.0).instances]
    assert instances[1:8] == ["layer"] * 5 + ["layer_whole", "layer"]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (GEMMA2, "cap on attention scores"),
        (SMOLLM, "simulated with them"),
        (OLMO3, "follow attention and MLP"),
    ],
)
def test_what_costs_next_to_nothing_is_said_to_be_left_out(tmp_path, config, said):
    load(tmp_path, config)
    (remark,) = validate_data({"hf": "config.json"}, ModelSpec).remarks(tmp_path)
    assert said in remark


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model_type": "qwen3_next"}, r"it has linear attention in most layers \(Gated DeltaNet\)"),
        ({"model_type": "minimax"}, "linear attention in most layers"),
        ({"model_type": "nemotron_h"}, "state-space layers"),
        ({"model_type": "mllama"}, "cross attention to images"),
        ({"model_type": "bart"}, "layers with biases and learned positions"),
        ({"model_type": "whisper"}, "convolutions over audio"),
        (GEMMA2 | {"final_logit_softcapping": 15.0}, "only 30.0 and null"),
        (GEMMA3 | {"sliding_window_pattern": "LLGL"}, "sliding_window_pattern is not supported"),
        (GEMMA3 | {"layer_types": [FULL] + [SLIDING] * 25}, "layer_types full_attention, sliding_attention"),
    ],
)
def test_what_no_dimension_says_is_named(tmp_path, config, message):
    with pytest.raises(ScenarioError, match=message):
        load(tmp_path, config)


def test_chunks_of_attention_are_a_window_and_that_is_said(tmp_path):
    chunked = SCOUT | {"attention_chunk_size": 8192}
    kinds = (["chunked_attention"] * 3 + [FULL]) * 12
    model = load(tmp_path, chunked)
    assert (model.window, model.full_attention_every) == (8192, 4)
    assert load(tmp_path, chunked | {"layer_types": kinds}) == model
    said = validate_data({"hf": "config.json"}, ModelSpec).remarks(tmp_path)
    assert any(line.startswith("attention_chunk_size 8192: chunks of attention are a") for line in said)


def test_the_guide_lists_every_type():
    guide = (Path(simcluster.__file__).parent / "guide" / "imports.md").read_text(encoding="utf-8")
    rows = [row for row in guide.split("`model_type`")[1].splitlines() if row.startswith("| ")]
    listed = [kind for row in rows for kind in row.split("|")[2].replace(",", " ").split()]
    assert sorted(listed) == sorted(TYPES)
