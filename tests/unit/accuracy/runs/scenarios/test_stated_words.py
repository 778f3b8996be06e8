"""Plans and models in the words of more publishers, and what would be misread in them."""

from __future__ import annotations

import pytest

from simcluster.accuracy.runs import scenario_of
from simcluster.accuracy.runs.scenarios import framework_of
from simcluster.errors import PlanError
from simcluster.scenario import Scenario
from tests.support.published_runs import run_of

STAGES = {"pipeline": "2", "data": "2"}
LLAMA = {"kv_heads": "2", "ffn": "512", "model": "mine"}
EXPERTS = {**LLAMA, "ffn": "64", "model": "mine-moe"}


@pytest.mark.parametrize(
    ("column", "spelt", "plain"),
    [
        *(
            ("recompute", words, "full")
            for words in (
                "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1",
                "--checkpoint-activations",
                "gradient_checkpointing=true",
                "remat each layer",
                "activation checkpointing (every block)",
                "yes (all layers)",
                "enabled",
                "1",
            )
        ),
        *(
            ("recompute", words, "selective")
            for words in ("selective activation recomputation", "--recompute-activations", '"selective"')
        ),
        *(("recompute", words, "none") for words in ("0", "w/o", "checkpoint-activations=false")),
        *(
            ("recompute", words, "full (block, 1)")
            for words in ("full, method=block, num_layers=1", "first 1 layer", "1 layers")
        ),
        *(("recompute", words, "1/2") for words in ("50%", "half of the layers")),
        ("recompute", "every second layer", "selective (2)"),
        ("recompute", "RMSNorm and core attention", "layernorm+core_attn"),
        *(("precision", words, "bf16") for words in ("mixed bf16", "AMP BF16", "bf16, fp32 states")),
        *(("precision", words, "fp16") for words in ("fp16-O2", "fp16 (Adam state fp32)", "mixed (fp16)")),
        ("precision", "Float8", "fp8"),
        ("precision", "mx-fp8", "mxfp8"),
        ("precision", "bf16 (pure)", "pure bf16"),
        *(
            ("zero_stage", words, "1")
            for words in ("--use-distributed-optimizer", "sharding stage1", "dist_adam", "Optimizer sharding")
        ),
        *(("zero_stage", words, "2") for words in ("deepspeed_zero2", "Z2")),
        *(
            ("zero_stage", words, "3")
            for words in ("fsdp full_shard auto_wrap", "ds_zero3", "Gemini", "SimpleFSDP")
        ),
        ("zero_stage", "sharding stage1 (degree 2)", "1 (group 2)"),
        *(("zero_stage", words, "3 (group 2)") for words in ("HSDP2", "HSDP (2)", "hybrid shard 2")),
        *(
            ("schedule", words, "1f1b")
            for words in ("one-forward-one-backward", "1F1B non-interleaved", "Schedule1F1B")
        ),
        ("schedule", "ScheduleGPipe", "gpipe"),
        *(
            ("framework", words, "megatron-lm")
            for words in ("ROCm/Megatron-LM", "Skywork-Megatron", "FlagPerf (megatron)")
        ),
        ("framework", "HF Trainer + DeepSpeed", "deepspeed"),
        ("framework", "PyTorch (NVIDIA DLE)", "nvidia-dle"),
        ("hardware", "A100 80GB PCIe", "A100-PCIe 80GB"),
        ("hardware", "DGX-A100 (640GB)", "A100-80GB SXM"),
        ("hardware", "A100 40GB (p4d)", "p4d.24xlarge"),
        ("hardware", "H100 80GB (AWS p5)", "p5.48xlarge"),
    ],
)
def test_spellings_mean_the_same(tmp_path, column, spelt, plain):
    others = {**(STAGES if column == "schedule" else {}), "hardware": "B200"} if column != "hardware" else {}
    found = scenario_of(run_of(tmp_path, **{**others, column: spelt})).data
    assert found == scenario_of(run_of(tmp_path, **{**others, column: plain})).data


@pytest.mark.parametrize(
    ("schedule", "stated", "found"),
    [
        ("interleaved, v=3", "", {"kind": "interleaved", "chunks": 3}),
        ("VPP=3", "3", {"kind": "interleaved", "chunks": 3}),
        ("interleaved (3 chunks)", "", {"kind": "interleaved", "chunks": 3}),
        ("PP2 VPP3", "", {"kind": "interleaved", "chunks": 3}),
        ("DualPipe", "", {"kind": "dualpipe_v"}),
    ],
)
def test_chunks_may_stand_with_the_schedule(tmp_path, schedule, stated, found):
    row = run_of(tmp_path, **STAGES, layers="6", schedule=schedule, virtual_pipeline=stated)
    assert scenario_of(row).data["parallel"]["schedule"] == found


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"recompute": "2"}, "the recomputation '2'"),
        ({"recompute": "selective checkpoint++"}, r"the recomputation 'selective checkpoint\+\+'"),
        ({"zero_stage": "ZeRO++ (qwZ+hpZ+qgZ)"}, "the ZeRO stage"),
        ({"schedule": "VPP=3", "virtual_pipeline": "2", **STAGES}, "the schedule vpp=3"),
        ({"offload": "optimizer offload 50%"}, "only whole states are moved"),
        ({"model": "ELECTRA-base"}, "a generator beside a discriminator"),
        ({"model": "Transformer-XL large"}, "what earlier sequences left"),
        ({"model": "Nemotron 3 Nano"}, "layers with a recurrent state"),
        ({**EXPERTS, "notes": "PR-MoE, 64 experts top1"}, "differ from layer to layer"),
    ],
)
def test_what_would_be_misread_says_why(tmp_path, change, reason):
    with pytest.raises(PlanError, match=reason):
        scenario_of(run_of(tmp_path, **change))


def test_nemotron_340b_is_no_nemotron_3(tmp_path):
    assert scenario_of(run_of(tmp_path, model="Nemotron-340B")).data["model"]["use"] == "nemotron4-340b"


@pytest.mark.parametrize(
    ("notes", "experts"),
    [
        ("E64K8", {"count": 64, "top_k": 8}),
        ("E=64, k=8", {"count": 64, "top_k": 8}),
        ("64 experts, 8 active per token", {"count": 64, "top_k": 8}),
        ("num-experts 64; moe-router-topk 8", {"count": 64, "top_k": 8}),
        ("lr 1e-4; 64 experts top8", {"count": 64, "top_k": 8}),
        ("256+1 experts top-8", {"count": 256, "top_k": 8, "shared": 1}),
        ("256 routed + 1 shared, top-8", {"count": 256, "top_k": 8, "shared": 1}),
        ("64 experts top8 + shared expert 512", {"count": 64, "top_k": 8, "shared": 8, "ffn": 64}),
        ("64 experts top8, shared expert", {"count": 64, "top_k": 8, "shared": 1}),
        ("64 experts of 128, top8", {"count": 64, "top_k": 8, "ffn": 128}),
        ("64 experts top2, capacity factor 1.25", {"capacity_factor": 1.25}),
        ("64 experts top1 every other layer", {"every": 2}),
        ("moe-layer-freq 3; 64 experts top1", {"every": 3}),
        ("64 experts top8; first 1 layer dense", {"dense_layers": 1}),
    ],
)
def test_mixtures_as_notes_state_them(tmp_path, notes, experts):
    found = scenario_of(run_of(tmp_path, **EXPERTS, layers="6", notes=notes)).data
    Scenario.of(found)
    assert {key: found["model"]["experts"].get(key) for key in experts} == experts


def test_dense_layers_of_unknown_width_are_as_wide_as_the_experts_of_a_token(tmp_path):
    found = scenario_of(run_of(tmp_path, **EXPERTS, notes="64 experts top8 + 1 shared; first 1 layer dense"))
    assert found.data["model"]["ffn"] == 9 * 64
    assert "dense layers are as wide as all experts of a token together" in found.assumed


@pytest.mark.parametrize(
    ("change", "model"),
    [
        ({"notes": "head dim 128"}, {"head_dim": 128}),
        ({"notes": "MQA", "kv_heads": ""}, {"kv_heads": 1}),
        ({"notes": "GQA 2", "kv_heads": ""}, {"kv_heads": 2}),
        ({"notes": "parallel attention, qk norm"}, {"parallel": "one_norm", "qk_norm": True}),
        ({"notes": "ALiBi"}, {"positions": "alibi"}),
        ({"notes": "dropout 0.1"}, {"dropout": 0.1, "attention_dropout": 0.1}),
        ({"notes": "1 MTP layer"}, {"mtp_layers": 1}),
        (
            {"notes": "multi-head latent attention, q_lora 64, kv_lora 32"},
            {"latent": {"kv_rank": 32, "q_rank": 64, "nope_dim": 128, "rope_dim": 64, "value_dim": 128}},
        ),
    ],
)
def test_models_as_notes_state_them(tmp_path, change, model):
    found = scenario_of(run_of(tmp_path, **{**LLAMA, **change})).data
    Scenario.of(found)
    assert {key: found["model"].get(key) for key in model} == model


def test_an_update_rule_that_is_not_simulated_is_named(tmp_path):
    assert any(
        "no rule for Adafactor" in text for text in scenario_of(run_of(tmp_path, notes="Adafactor")).assumed
    )


@pytest.mark.parametrize(
    ("change", "profile"),
    [
        ({"zero_stage": "1"}, "megatron-core"),
        ({"zero_stage": "2"}, "deepspeed-zero"),
        ({"zero_stage": "0"}, "ddp"),
        ({"framework": "megatron-lm"}, "megatron-lm-2022"),
        ({"framework": "megatron-lm", "model": "StarCoder 15.5B"}, "megatron-core"),
    ],
)
def test_profiles_are_those_of_the_time_and_the_plan(tmp_path, change, profile):
    row = {"framework": "own", "tensor": "1", "data": "8", **change}
    assert framework_of(run_of(tmp_path, **row)).profile == profile


@pytest.mark.parametrize(
    ("change", "fused"),
    [
        ({"model": "llama2-7b"}, True),
        ({"hardware": "H100"}, True),
        ({"notes": "FlashAttention v2"}, True),
        ({"framework": "nanoGPT"}, True),
        ({}, False),
    ],
)
def test_attention_is_fused_where_that_is_older_than_the_run(tmp_path, change, fused):
    row = {"framework": "own", "zero_stage": "0", "tensor": "1", "data": "8", **change}
    found = scenario_of(run_of(tmp_path, **row)).data["framework"]
    assert (isinstance(found, dict) and found.get("attention") == "flash_2") is fused


@pytest.mark.parametrize(
    ("notes", "sharding"),
    [
        ("zero1 size 2", {"zero": 1, "shard_size": 2}),
        ("sharding degree 2", {"zero": 1, "shard_size": 2}),
        ("zero1 size 8", {"zero": 1}),
    ],
)
def test_notes_state_how_many_ranks_share_a_state(tmp_path, notes, sharding):
    found = scenario_of(run_of(tmp_path, notes=notes)).data
    Scenario.of(found)
    assert found["parallel"]["optimizer_sharding"] == sharding


def test_internevo_keeps_gradients_in_16_bits(tmp_path):
    for named in ({"framework": "InternEvo"}, {"framework": "other", "notes": "InternEvo, zero1"}):
        framework = scenario_of(run_of(tmp_path, **named)).data["framework"]
        assert (framework["gradients"]["bf16"], framework["main_gradients"]) == ("compute", False)
    row = run_of(tmp_path, framework="Colossal-AI Gemini", zero_stage="Gemini", tensor="1", data="8")
    assert scenario_of(row).data["framework"] == "fsdp"


def test_megatrons_experts_need_sequence_parallelism(tmp_path):
    mixture = {**EXPERTS, "notes": "MoE 8 experts top2", "sequence_parallel": ""}
    for expert, recipe in (("4", "megatron_sp"), ("1", "megatron")):
        found = scenario_of(run_of(tmp_path, **mixture, expert=expert))
        assert found.data["parallel"]["recipe"] == recipe
        assert any("sequence parallelism is used" in text for text in found.assumed) == (expert == "4")


@pytest.mark.parametrize(
    ("framework", "sharding"),
    [("torchtitan", {"fsdp": {"reshard_after_forward": False}}), ("megatron-core", {"zero": 3})],
)
def test_weights_stay_gathered_with_stages(tmp_path, framework, sharding):
    row = run_of(tmp_path, **STAGES, framework=framework, zero_stage="3")
    assert scenario_of(row).data["parallel"]["optimizer_sharding"] == sharding


@pytest.mark.parametrize(
    ("notes", "mesh"),
    [
        ("ulysses degree 2, ring degree 4", {"context": 4, "context_heads": 2}),
        ("2D-Attention HP=4", {"context": 2, "context_heads": 4}),
        ("ulysses", {"context": 8}),
    ],
)
def test_groups_exchange_heads_inside_rings(tmp_path, notes, mesh):
    shared = {"context": "8", "data": "1", "tensor": "1", "heads": "8", "notes": notes, "ffn": "1024"}
    found = scenario_of(run_of(tmp_path, **shared)).data
    Scenario.of(found)
    assert {axis: size for axis, size in found["parallel"]["mesh"].items() if "context" in axis} == mesh


def test_four_of_eight_v100_are_a_host(tmp_path):
    part = {"num_devices": "8", "data": "8", "tensor": "1", "devices_per_host": "4"}
    Scenario.of(scenario_of(run_of(tmp_path, hardware="V100 32GB", **part)).data)


def test_dualpipe_has_fewer_layers_where_further_tokens_are_predicted(tmp_path):
    mesh = {"num_devices": "16", "tensor": "1", "data": "1", "pipeline": "16", "schedule": "DualPipe"}
    found = scenario_of(run_of(tmp_path, **mesh, model="DeepSeek-V3 671B", layers="61", notes="MTP 1"))
    assert found.data["parallel"]["schedule"]["stages"] == [[2] * 16, [0, 1, *[2] * 14]]
