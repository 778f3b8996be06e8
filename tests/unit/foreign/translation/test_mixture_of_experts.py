"""Mixtures of experts and latent attention in the words of other tools."""

from __future__ import annotations

import pytest

from simcluster.errors import ScenarioError
from simcluster.foreign import TranslationStatus, UserAdditions, importer, translate_file
from simcluster.scenario import Scenario
from tests.support.expert_files import EXPERTS_OF_MEGATRON as SMALL
from tests.support.expert_files import EXPERTS_OF_MINDFORMERS as MINDFORMERS

SIZES = """torchrun --nproc_per_node 8 --nnodes 16 pretrain_gpt.py --num-layers 61 --hidden-size 7168 \
--ffn-hidden-size 18432 --num-attention-heads 128 --seq-length 4096 --max-position-embeddings 4096 \
--micro-batch-size 1 --global-batch-size 1024 --vocab-size 129280 --bf16 --disable-bias-linear --swiglu \
--normalization RMSNorm --position-embedding-type rope --untie-embeddings-and-output-weights \
--hidden-dropout 0 --attention-dropout 0 """
LATENT = """--multi-latent-attention --q-lora-rank 1536 --kv-lora-rank 512 --qk-head-dim 128 \
--qk-pos-emb-head-dim 64 --v-head-dim 128 """
EXPERTS = """--num-experts 256 --moe-ffn-hidden-size 2048 --moe-router-topk 8 \
--moe-shared-expert-intermediate-size 2048 --moe-layer-freq '([0]*3+[1]*58)' \
--moe-router-score-function sigmoid --moe-router-topk-scaling-factor 2.5 --moe-router-num-groups 8 \
--moe-router-group-topk 4 --moe-router-enable-expert-bias """


def read(text, kind="megatron", cluster="dgx-h100", **given):
    return translate_file(
        importer(kind), text, "file", UserAdditions(cluster, given.get("hosts"), None, (), {})
    )


def said(found, name):
    return [(each.status, each.reason) for each in found.untranslated if each.flag.name == name]


def test_megatrons_arguments_of_deepseek_v3_are_the_catalogs_model():
    found = read(SIZES + LATENT + EXPERTS + "--mtp-num-layers 1")
    made = Scenario.of(found.data).model
    catalog = Scenario.of({**found.data, "model": {"use": "deepseek-v3"}}).model
    assert made == catalog
    assert not [
        each
        for each in found.untranslated
        if each.status in (TranslationStatus.UNSUPPORTED, TranslationStatus.UNKNOWN)
    ]


DSA = [
    """--experimental-attention-variant dsa --dsa-indexer-n-heads 64 --dsa-indexer-head-dim 128 \
--dsa-indexer-topk 2048 --dsa-indexer-use-sparse-loss """,
    "--enable-dsa-indexer --index-n-heads 64 --index-head-dim 128 --index-topk 2048 ",
]


@pytest.mark.parametrize("arguments", DSA)
def test_arguments_of_sparse_attention_are_the_catalogs(arguments):
    found = read(SIZES + LATENT + EXPERTS + "--mtp-num-layers 1 " + arguments)
    made = Scenario.of(found.data).model
    assert made == Scenario.of({**found.data, "model": {"use": "deepseek-v3.2"}}).model


def test_sparse_attention_lacks_no_size():
    with pytest.raises(ScenarioError, match=r"does not give model\.latent\.sparse\.tokens"):
        read(SIZES + LATENT + EXPERTS + DSA[1].replace("--index-topk 2048 ", ""))


@pytest.mark.parametrize(
    ("arguments", "mesh", "roles"),
    [
        ("", {"data": 8}, None),
        ("--expert-model-parallel-size 8", {"data": 1, "expert": 8}, None),
        ("--expert-model-parallel-size 2", {"data": 4, "expert": 2}, None),
        (
            "--tensor-model-parallel-size 2 --sequence-parallel --expert-model-parallel-size 2",
            {"data": 2, "expert": 2, "tensor": 2},
            None,
        ),
        (
            "--tensor-model-parallel-size 2 --sequence-parallel --expert-model-parallel-size 4"
            " --expert-tensor-parallel-size 1",
            {"data": 2, "expert": 2, "tensor": 2},
            {"experts": ["expert", "tensor"]},
        ),
    ],
)
def test_experts_lie_over_ranks_that_split_the_batch(arguments, mesh, roles):
    found = read(SMALL + arguments)
    assert found.data["parallel"]["mesh"] == mesh
    assert found.data["parallel"].get("roles") == roles


def test_ranks_that_do_not_divide_are_refused():
    with pytest.raises(ScenarioError, match=r"8 data-parallel ways / 3 = 2\.66667"):
        read(SMALL + "--expert-model-parallel-size 3")


@pytest.mark.parametrize(
    ("written", "dense"),
    [("1", 0), ("'[0,1,1,1]'", 1), ("'([0]*2+[1]*2)'", 2), ("'[0]*1+[1,1]+[1]'", 1)],
)
def test_layers_in_front_without_experts(written, dense):
    found = read(SMALL + f"--moe-layer-freq {written}")
    assert found.data["model"]["experts"].get("dense_layers", 0) == dense
    assert (
        not said(found, "--moe-layer-freq")
        or said(found, "--moe-layer-freq")[0][0] is TranslationStatus.ABSORBED
    )


@pytest.mark.parametrize("written", ["'[0,2,1,1]'", "0", "every"])
def test_what_is_no_pattern_of_layers_is_refused(written):
    with pytest.raises(ScenarioError, match="expected a number of layers, or a list"):
        read(SMALL + f"--moe-layer-freq {written}")


def test_layers_that_are_counted_wrongly_are_refused():
    with pytest.raises(ScenarioError, match="3 layers are listed, but the model has 4"):
        read(SMALL + "--moe-layer-freq '[0,1,1]'")


@pytest.mark.parametrize(
    ("written", "dense", "every"),
    [
        ("2", 0, 2),
        ("'[0,1]*2'", 0, 2),
        ("'[1,0]*2'", 0, 2),
        ("4", 0, 4),
        ("'[0,0,0,1]'", 3, None),
        ("'[0,1,0,0]'", 1, 3),
    ],
)
def test_experts_in_every_so_many_layers(written, dense, every):
    """Llama 4 Maverick; with a number N Megatron has them in the first layer of every N."""
    found = read(SMALL + f"--moe-layer-freq {written}")
    experts = found.data["model"]["experts"]
    assert (experts.get("dense_layers", 0), experts.get("every")) == (dense, every)
    assert not any(status is TranslationStatus.UNSUPPORTED for status, _ in said(found, "--moe-layer-freq"))
    earlier = "of every" in " ".join(found.remarks)
    assert earlier == (written in ("2", "4", "'[1,0]*2'", "'[0,1,0,0]'"))


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("3", "of every 3 layers the last has experts, 1 in all; in the file 2 have some"),
        ("'[0,1,1,0]'", "all layers behind the first 1 have experts"),
        ("'[1,1,0,1]'", "all layers behind the first 0 have experts"),
    ],
)
def test_other_patterns_of_experts_are_told(written, reason):
    found = read(SMALL + f"--moe-layer-freq {written}")
    assert said(found, "--moe-layer-freq") == [(TranslationStatus.UNSUPPORTED, reason)]


def test_shared_experts_of_another_width_are_told():
    found = read(SMALL + "--moe-ffn-hidden-size 32 --moe-shared-expert-intermediate-size 48")
    assert found.data["model"]["experts"]["shared"] == 2
    ((fate, reason),) = said(found, "--moe-shared-expert-intermediate-size")
    assert fate is TranslationStatus.UNSUPPORTED and "48 / 32 = 1.5" in reason


def test_without_experts_nothing_is_said_of_them():
    dense = SMALL.replace("--num-experts 8 --moe-router-topk 2 ", "--moe-router-topk 2")
    found = read(dense + " --expert-model-parallel-size 2")
    assert "experts" not in found.data["model"] and found.data["parallel"]["mesh"] == {"data": 8}
    assert said(found, "--moe-router-topk") == [(TranslationStatus.EFFECTLESS, "there are no experts")]
    assert said(found, "--expert-model-parallel-size") == [
        (TranslationStatus.EFFECTLESS, "there are no experts")
    ]


@pytest.mark.parametrize(
    ("arguments", "normalised"),
    [
        ("", True),
        ("--moe-router-pre-softmax", False),
        ("--moe-router-score-function sigmoid", True),
    ],
)
def test_weights_are_normalised_unless_softmax_comes_first(arguments, normalised):
    assert read(SMALL + arguments).data["model"]["experts"]["normalised"] is normalised


@pytest.mark.parametrize(("arguments", "padded"), [("", False), ("--moe-pad-expert-input-to-capacity", None)])
def test_experts_compute_empty_places_where_they_are_padded(arguments, padded):
    found = read(f"{SMALL}--moe-expert-capacity-factor 1.5 {arguments}")
    experts = found.data["model"]["experts"]
    assert (experts["capacity_factor"], experts.get("padded")) == (1.5, padded)
    listed = said(found, "--moe-pad-expert-input-to-capacity")
    assert TranslationStatus.UNSUPPORTED not in [status for status, *_ in listed]


def test_mindformers_sections_make_one_mixture():
    found = read(MINDFORMERS, kind="mindformers", cluster="atlas-800t-a2", hosts=1)
    assert found.data["model"]["experts"] == {
        "count": 8,
        "top_k": 2,
        "ffn": 32,
        "shared": 1,
        "dense_layers": 1,
        "score": "sigmoid",
        "normalised": True,
        "steered": True,
        "capacity_factor": 1.5,
    }
    assert found.data["parallel"]["mesh"] == {"data": 2, "expert": 4}


def test_experts_have_the_biases_of_other_layers():
    found = read(SMALL.replace("--disable-bias-linear ", ""))
    assert found.data["model"]["bias"] is True
    assert found.data["model"]["experts"]["count"] > 1


def test_nemos_settings_are_megatrons():
    text = """
trainer: {devices: 8, num_nodes: 1, precision: bf16}
model:
  micro_batch_size: 1
  global_batch_size: 32
  encoder_seq_length: 16
  max_position_embeddings: 16
  num_layers: 4
  hidden_size: 64
  ffn_hidden_size: 128
  num_attention_heads: 4
  num_moe_experts: 8
  moe_router_topk: 2
  moe_grouped_gemm: true
  expert_model_parallel_size: 4
  bias: false
  activation: swiglu
  override_vocab_size: 128
"""
    found = read(text, kind="nemo")
    assert found.data["parallel"]["mesh"] == {"data": 2, "expert": 4}
    assert found.data["model"]["experts"]["count"] == 8
