"""NeMo's BERT and T5: the program, not the words that all of them share, decides what is trained."""

from __future__ import annotations

import pytest

from simcluster.foreign import TranslationStatus
from tests.support.nemo_files import BERT, T5, read


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
