"""nanoGPT's Python, LLM Foundry's and LitGPT's YAML."""

from __future__ import annotations

import pytest

from simcluster.errors import ScenarioError
from simcluster.foreign import TranslationStatus, UserAdditions, importer, translate_file
from simcluster.foreign.reading import read_python
from tests.support.foreign_samples import text_of

NANO = text_of("gpt2_124m_nanogpt.txt")
MPT = text_of("mpt_7b_llm_foundry.yaml")
LIT = text_of("llama2_7b_litgpt.yaml")


def read(kind, text, *, hosts=1, settings=()):
    return translate_file(importer(kind), text, "f", UserAdditions("dgx-a100", hosts, None, settings))


def lost(imported, status=TranslationStatus.UNSUPPORTED):
    return {each.flag.name: each.reason for each in imported.untranslated if each.status is status}


def test_nanogpt_counts_micro_batches_of_all_ranks():
    """``gradient_accumulation_steps = 5 * 8`` is 5 on each of 8 ranks; norms have no biases."""
    data = read("nanogpt", NANO).data
    sizes = {"layers": 12, "hidden": 768, "heads": 12, "vocab": 50304, "max_positions": 1024}
    assert data["model"] == {"family": "gpt", "bias": False, "norm_bias": False, **sizes}
    assert data["training"] | {"optimizer": {}} == {
        "global_batch": 480,
        "micro_batch": 12,
        "seq_len": 1024,
        "precision": {"compute": "bf16"},
        "optimizer": {},
    }
    assert data["parallel"]["optimizer_sharding"] == {"zero": 0}


def test_nanogpt_of_a_checkpoint():
    text = "init_from = 'gpt2-xl'\nbatch_size = 1\ngradient_accumulation_steps = 32\n"
    model = read("nanogpt", text).data["model"]
    assert (model["layers"], model["hidden"], model["vocab"], model["bias"]) == (48, 1600, 50257, True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n_layer = open('/etc/passwd').read()\nn_embd = 768\n", "n_layer = open"),
        ("n_layer = 6\ngradient_accumulation_steps = 3\n", "3 micro-batches do not divide by 8 ranks"),
        ("n_layer = 6\neval_only = True\n", "no scenario can say an evaluation"),
        ("n_layer = 6 +\n", "this is not Python"),
        ("print('x')\n", "this is not a nanoGPT configuration"),
    ],
)
def test_nanogpt_that_cannot_be_used_says_why(text, message):
    with pytest.raises(ScenarioError) as caught:
        read("nanogpt", text)
    assert message in str(caught.value)


def test_python_is_read_and_never_run(tmp_path):
    """Literals, arithmetic and earlier names; calls stay open."""
    proof = tmp_path / "run"
    text = f"""
a = 2
b: int = a * 3 // 4
c = dict(d=1, e=dict(f='x'))
g = {{'h': [1, 2], 'i': -a}}
j = open({str(proof)!r}, 'w')
k = j
n = 1 // 0
if True:
    a = 7
"""
    found = {flag.name: (flag.value, bool(flag.missing)) for flag in read_python(text, "f.py")}
    assert found == {
        "a": (2, False),
        "b": (1, False),
        "c.d": (1, False),
        "c.e.f": ("x", False),
        "g.h": ([1, 2], False),
        "g.i": (-2, False),
        "j": (None, True),
        "k": (None, True),
        "n": (None, True),
    }
    assert not proof.exists()


def test_mpt_of_llm_foundry():
    imported = read("llm-foundry", MPT)
    assert imported.data["model"] == {
        "family": "gpt",
        "layers": 32,
        "hidden": 4096,
        "heads": 32,
        "vocab": 50368,
        "max_positions": 2048,
    }
    assert imported.data["parallel"]["optimizer_sharding"] == {"fsdp": {"reshard_after_forward": True}}
    assert imported.data["training"]["precision"] == {"compute": "bf16", "gradients": "bf16"}
    assert imported.data["training"]["micro_batch"] == 16
    assert not lost(imported)


def test_a_micro_batch_of_composer_beyond_a_ranks_share():
    imported = read("llm-foundry", MPT, hosts=16)
    assert imported.data["training"]["micro_batch"] == 8
    assert any("1024 samples / 128 ranks = 8" in said for said in imported.remarks)


def test_a_micro_batch_that_composer_finds_by_trying_is_asked_for():
    text = MPT.replace("device_train_microbatch_size: 16\n", "device_train_microbatch_size: auto\n")
    with pytest.raises(ScenarioError, match="found by trying"):
        read("llm-foundry", text)
    settings = (("training.micro_batch", "4"),)
    assert read("llm-foundry", text, settings=settings).data["training"]["micro_batch"] == 4


def test_alibi_without_biases_and_default_precision():
    text = MPT.replace("attn_impl: flash", "attn_impl: flash\n    alibi: true")
    text = text.replace("d_model: 4096", "d_model: 4096\n  no_bias: true").replace("PURE", "DEFAULT")
    data = read("llm-foundry", text).data
    assert (data["model"]["positions"], data["model"]["bias"], data["model"]["norm_bias"]) == (
        "alibi",
        False,
        False,
    )
    assert data["training"]["precision"]["gradients"] == "fp32"


def test_litgpt_tunes_with_adapters():
    data = read("litgpt", LIT).data
    assert data["model"] == {"use": "llama2-7b"}
    assert data["training"]["lora"] == {
        "rank": 32,
        "alpha": 16,
        "dropout": 0.05,
        "targets": ["q_proj", "v_proj"],
    }
    assert data["training"]["precision"] == {"compute": "bf16", "gradients": "bf16", "master": "none"}
    assert data["parallel"]["recompute"] == {"layers": "all"}


def test_litgpt_trains_from_scratch_sharded_within_hosts():
    text = "model_name: tiny-llama-1.1b\nprecision: bf16-mixed\ndevices: auto\nnum_nodes: 2\n"
    text += "train: {global_batch_size: 512, micro_batch_size: 4, max_seq_length: 2048}\n"
    data = read("litgpt", text, hosts=2).data
    assert data["model"]["layers"] == 22
    assert data["training"]["precision"] == {"compute": "bf16", "gradients": "bf16"}
    assert data["parallel"]["optimizer_sharding"]["shard_size"] == 8
    assert "recompute" not in data["parallel"]
