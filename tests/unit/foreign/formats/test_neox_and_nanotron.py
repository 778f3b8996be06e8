"""GPT-NeoX's and nanotron's configurations."""

from __future__ import annotations

import pytest

from simcluster.errors import ScenarioError
from simcluster.foreign import UserAdditions, importer, translate_file
from simcluster.scenario import Scenario
from tests.support.foreign_samples import text_of

NEOX = text_of("gpt_neox_20b.yml")
NANOTRON = text_of("llama3_8b_nanotron.yaml")
SMALL = """
pipe_parallel_size: 0
model_parallel_size: 2
num_layers: 2
hidden_size: 4096
num_attention_heads: 32
seq_length: 2048
max_position_embeddings: 2048
make_vocab_size_divisible_by: 1
pos_emb: rotary
train_micro_batch_size_per_gpu: 1
gradient_accumulation_steps: 2
"""


def read(kind, text, *, hosts=1, settings=(("model.vocab", "50257"),)):
    return translate_file(importer(kind), text, "f", UserAdditions("dgx-h100", hosts, None, settings))


def test_neox_20b_is_the_published_one():
    """With the vocabulary padded to 50,432 for 2 tensor ranks, 20,554,567,680 parameters."""
    data = read("gpt-neox", NEOX, hosts=12, settings=()).data
    assert data["parallel"] == {
        "mesh": {"pipeline": 4, "data": 12, "tensor": 2},
        "recipe": "megatron",
        "schedule": {"kind": "1f1b", "p2p": "blocking"},
        "optimizer_sharding": {"zero": 1},
        "recompute": {"layers": "all"},
    }
    assert data["training"]["global_batch"] == 4 * 32 * 12
    assert data["training"]["precision"] == {"compute": "fp16", "gradients": "fp16"}
    padded = Scenario.of(data | {"model": data["model"] | {"vocab": 50432}})
    assert padded.model.num_parameters == 20_554_567_680


@pytest.mark.parametrize(
    ("lines", "sizes"),
    [
        # The new MLP takes a third of the width that is said, the old one two thirds of 4 x hidden.
        ("activation: swiglu\nintermediate_size: 32768\nmlp_multiple_of: 256\n", ("swiglu", 11008)),
        ("mlp_type: llama\nmultiple_of: 256\n", ("swiglu", 11008)),
        ("intermediate_size: 10240\n", ("gelu", 10240)),
        ("activation: gelu\n", ("gelu", 16384)),
    ],
)
def test_neox_widths_of_mlps(lines, sizes):
    model = read("gpt-neox", SMALL + lines).data["model"]
    assert (model["activation"], model["ffn"]) == sizes


def test_neox_biases_attention_and_format():
    lines = (
        "use_bias_in_attn_linear: false\nuse_bias_in_mlp: false\nuse_bias_in_norms: false\nnorm: rmsnorm\n"
        'attention_config: [[["flash"], 2]]\nprecision: bfloat16\nzero_optimization: {stage: 0}\n'
    )
    data = read("gpt-neox", SMALL + lines).data
    assert data["model"]["bias"] is False
    assert "norm_bias" not in data["model"]
    assert data["framework"] == {"use": "megatron-deepspeed", "attention": "flash_2"}
    assert data["training"]["precision"] == {"compute": "bf16", "gradients": "fp32"}
    assert data["parallel"]["optimizer_sharding"] == {"zero": 1}  # DeepSpeed's BF16_Optimizer


def test_neox_refuses_what_no_scenario_says():
    with pytest.raises(ScenarioError, match="state-space layers"):
        read("gpt-neox", SMALL + 'attention_config: [[["mamba"], 2]]\n')
    with pytest.raises(ScenarioError, match="preferences or rewards"):
        read("gpt-neox", SMALL + "train_impl: dpo\n")


@pytest.mark.parametrize(
    ("kind", "text"), [("deepspeed", NEOX.partition("\n")[2]), ("mindformers", NANOTRON)]
)
def test_a_format_with_the_same_settings_does_not_read_them(kind, text):
    """Read as a DeepSpeed JSON or a MindFormers YAML, it would lose its parallel sizes."""
    with pytest.raises(ScenarioError, match=r"simcluster import (gpt-neox|nanotron) reads"):
        read(kind, text)


def test_nanotron_is_read_as_it_is_written():
    data = read("nanotron", NANOTRON, hosts=4, settings=()).data
    assert data["parallel"] == {
        "mesh": {"pipeline": 2, "data": 4, "tensor": 4},
        "recipe": "megatron_sp",
        "schedule": {"kind": "1f1b", "p2p": "blocking"},
        "optimizer_sharding": {"zero": 1},
    }
    assert data["training"]["global_batch"] == 16 * 4
    assert data["training"]["precision"] == {"compute": "bf16", "gradients": "fp32"}
    assert Scenario.of(data).model.num_parameters == 8_030_261_248


def test_nanotron_without_sequence_parallelism_and_masters():
    text = NANOTRON.replace("REDUCE_SCATTER", "ALL_REDUCE").replace("in_fp32: true", "in_fp32: false")
    data = read("nanotron", text, hosts=4, settings=()).data
    assert data["parallel"]["recipe"] == "megatron"
    assert data["training"]["precision"] == {"compute": "bf16", "gradients": "bf16", "master": "none"}
