"""NeMo's BERT and T5: the program, not the words that all of them share, decides what is trained."""

from __future__ import annotations

import pytest

from simcluster.foreign import TranslationStatus
from simcluster.scenario import Scenario
from simcluster.simulation import build_scenario
from tests.support.nemo_files import read

BERT = """\
name: megatron_bert
trainer: {devices: 8, num_nodes: 16, precision: bf16, gradient_clip_val: 1.0}
model:
  micro_batch_size: 4
  global_batch_size: 512
  encoder_seq_length: 512
  max_position_embeddings: ${.encoder_seq_length}
  num_layers: 24
  hidden_size: 1024
  ffn_hidden_size: ${multiply:4, ${.hidden_size}}
  num_attention_heads: 16
  hidden_dropout: 0.1
  attention_dropout: 0.1
  bert_binary_head: True
  tokenizer: {library: megatron, type: BertWordPieceLowerCase}
  data: {seq_length: '${model.encoder_seq_length}', masked_lm_prob: 0.15}
  optim: {name: distributed_fused_adam}
"""

T5 = """\
name: megatron_t5
trainer: {devices: 8, num_nodes: 16, precision: bf16}
model:
  micro_batch_size: 4
  global_batch_size: 512
  seq_length: 512
  share_decoder_tokens_head_embeddings: True
  tokens_head_bias: True
  tokenizer: {library: megatron, type: BertWordPieceCase}
  encoder:
    arch: transformer
    num_layers: 12
    hidden_size: 768
    ffn_hidden_size: 2048
    num_attention_heads: 12
    kv_channels: 64
    hidden_dropout: 0.1
    normalization: rmsnorm
    bias: False
    activation: geglu
    position_embedding_type: relative
    relative_attention_num_buckets: 32
  decoder:
    arch: transformer
    num_layers: 10
    hidden_size: 768
    ffn_hidden_size: 2048
    hidden_dropout: 0.0
  data: {seq_length: '${model.seq_length}', seq_length_dec: 128}
  optim: {name: mcore_distributed_optim}
"""


def fates(found):
    return {each.flag.name: each.status for each in found.untranslated}


@pytest.mark.parametrize("lines", ["name: megatron_bert\n", "  bert_binary_head: True\n", ""])
def test_bert_is_bert_by_its_name_or_by_its_head(lines):
    text = BERT.replace(lines, "") if lines else BERT
    found = read(text)
    model = found.data["model"]
    assert model["family"] == "bert"
    assert {"norm", "activation", "positions", "bias"}.isdisjoint(model)
    assert (model["layers"], model["vocab"], model["max_positions"]) == (24, 30522, 512)
    assert not [
        each
        for each in found.untranslated
        if each.status in (TranslationStatus.UNSUPPORTED, TranslationStatus.UNKNOWN)
    ]
    build_scenario(Scenario.of(found.data))


def test_a_bert_with_one_head_is_said_first():
    found = read(BERT.replace("bert_binary_head: True", "bert_binary_head: False"))
    assert fates(found)["model.bert_binary_head"] is TranslationStatus.UNSUPPORTED


def test_t5_has_two_sides():
    found = read(T5)
    model = found.data["model"]
    assert model["family"] == "t5"
    assert (model["encoder_layers"], model["decoder_layers"], model["decoder_seq_len"]) == (12, 10, 128)
    assert (model["head_dim"], model["activation"], model["tied"]) == (64, "geglu", True)
    assert fates(found)["model.decoder.hidden_size"] is TranslationStatus.EFFECTLESS
    first = [name for name, fate in fates(found).items() if fate is TranslationStatus.UNSUPPORTED]
    assert sorted(first) == ["model.decoder.hidden_dropout", "model.tokens_head_bias"]
    build_scenario(Scenario.of(found.data))


def test_bart_is_no_t5_and_that_is_said_first():
    found = read(T5.replace("name: megatron_t5", "name: megatron_bart"))
    assert fates(found)["name"] is TranslationStatus.UNSUPPORTED


@pytest.mark.parametrize(
    ("strategy", "stage"), [("no_shard", 0), ("optim", 1), ("optim_grads", 2), ("optim_grads_params", 3)]
)
@pytest.mark.parametrize("section", ["trainer.strategy.ddp", "ddp"])
def test_how_far_megatrons_fsdp_shards(strategy, stage, section):
    nested = BERT.replace("optim: {name: distributed_fused_adam}", "seed: 1")
    for fsdp in ("true", "false"):
        keys = section.split(".")
        line = f"{{data_parallel_sharding_strategy: {strategy}, use_megatron_fsdp: {fsdp}}}"
        if keys[0] == "trainer":
            text = nested.replace("precision: bf16,", f"precision: bf16, strategy: {{ddp: {line}}},")
        else:
            text = f"{nested}ddp: {line}\n"
        found = read(text)
        name = f"{section}.data_parallel_sharding_strategy"
        written = found.data["parallel"].get("optimizer_sharding")
        if fsdp == "true":
            assert written == {"zero": stage}
        else:
            assert written is None
            assert fates(found)[name] is TranslationStatus.EFFECTLESS
