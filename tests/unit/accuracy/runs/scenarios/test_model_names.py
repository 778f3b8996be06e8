"""What the name of a model says, however publishers spell it."""

from __future__ import annotations

import pytest

from simcluster.accuracy.runs import scenario_of
from tests.support.published_runs import run_of


@pytest.mark.parametrize("model", ["GPT 1.7B", "gpt2-8.3b", "GPT-3 175B", "Megatron 8.3B", "gpt-18.4b"])
def test_megatrons_gpts_have_dropout_however_they_are_spelt(tmp_path, model):
    assert scenario_of(run_of(tmp_path, framework="megatron-lm", model=model)).data["model"]["dropout"] == 0.1


@pytest.mark.parametrize("model", ["gpt oss 20b", "llama2-7b"])
def test_other_models_have_none(tmp_path, model):
    row = run_of(tmp_path, framework="megatron-lm", model=model, kv_heads="2", ffn="512")
    assert "dropout" not in scenario_of(row).data["model"]


@pytest.mark.parametrize(
    ("model", "sizes"),
    [
        ("LLAMA3-8B", {"layers": 32, "ffn": 14336, "vocab": 128256, "kv_heads": 8}),
        ("meta-llama/Llama-3.1-8B-Instruct", {"layers": 32, "ffn": 14336, "vocab": 128256, "kv_heads": 8}),
        ("Llama 3.2 1B", {"layers": 16, "tied": True}),
        ("Qwen2-72B", {"layers": 80, "ffn": 29568, "vocab": 152064, "qkv_bias": True}),
    ],
)
def test_sizes_that_a_row_leaves_out_are_those_of_its_model(tmp_path, model, sizes):
    left_out = dict.fromkeys(("layers", "hidden", "heads", "kv_heads", "ffn", "vocab"), "")
    found = scenario_of(run_of(tmp_path, model=model, **left_out))
    assert {key: found.data["model"].get(key) for key in sizes} == sizes
    assert not any("the row states none" in text for text in found.assumed)


@pytest.mark.parametrize(("model", "entry"), [("BERT base", "bert-base"), ("gpt oss 20b", "gpt-oss-20b")])
def test_a_name_of_two_words_is_that_of_the_catalog(tmp_path, model, entry):
    assert scenario_of(run_of(tmp_path, model=model)).data["model"]["use"] == entry


def test_a_default_that_a_source_contradicts_is_not_assumed(tmp_path):
    row = {"framework": "megatron-lm", "model": "gpt-4b"}
    assert any("dropout is 0.1" in text for text in scenario_of(run_of(tmp_path, **row)).assumed)
    found = scenario_of(run_of(tmp_path, source="x VocabularyParallelism@y", **row))
    assert found.data["model"]["dropout"] == 0
    (told,) = [text for text in found.assumed if "dropout" in text]
    assert told.startswith("there is no dropout: ")
