"""What rows state of models and plans whose names say nothing, and what is assumed where they do not."""

from __future__ import annotations

import pytest

from simcluster.accuracy.runs import scenario_of
from simcluster.errors import PlanError
from simcluster.scenario import Scenario
from tests.support.published_runs import run_of

PARTS = {"context": "2", "data": "2"}
NORMS = "layers.*.{attention,mlp}.norm"
CORE = "*layers.*.attention.core{,.scores,.softmax,.dropout,.context}"

EXPERTS = {"model": "new 8x", "kv_heads": "2", "ffn": "64", "expert": "2"}

CLIPPED = "gradients are clipped to a norm of 1, the default of Megatron's training script"


@pytest.mark.parametrize(
    ("change", "model", "assumed"),
    [
        ({"vocab": ""}, {"vocab": 50257}, "the vocabulary is GPT-2's, 50,257: the row states none"),
        (
            {"model": "nobody-7b", "kv_heads": "2", "ffn": "512", "vocab": ""},
            {"family": "llama", "kv_heads": 2, "ffn": 512, "vocab": 32000},
            "the model has Llama's architecture with the stated dimensions",
        ),
        (
            {"model": "nobody-7b", "ffn": "1024"},
            {"family": "gpt", "max_positions": 128},
            "the model has GPT-2's architecture with the stated dimensions",
        ),
        ({"model": "Megatron-22B", "notes": "flags: mtp-num-layers=1"}, {"mtp_layers": 1}, None),
        # The catalog's model has a layer of multi-token prediction; a row that states none has none.
        (
            {"model": "DeepSeek-V3", "ffn": "2048", "layers": "4"},
            {"use": "deepseek-v3", "mtp_layers": 0},
            None,
        ),
        ({"model": "GPT3 175B"}, {"use": "gpt3-175b", "layers": 2, "hidden": 256}, None),
        ({"model": "Megatron-22B"}, {"use": "megatron-22b", "layers": 2}, None),
        ({"model": "Qwen3.30B-A3B", "ffn": "768"}, {"use": "qwen3-30b-a3b", "layers": 2}, None),
        (
            {**EXPERTS, "notes": "MoE 8 experts top2+1 shared, head_dim64; 1 dense layers ffn128; SWA"},
            {
                "family": "llama",
                "head_dim": 64,
                "experts": {"count": 8, "top_k": 2, "ffn": 64, "shared": 1, "dense_layers": 1},
                "ffn": 128,
            },
            "attention over the whole sequence in all layers, instead of a window in every other one",
        ),
        (
            {**EXPERTS, "kv_heads": "", "notes": "MLA; MoE 8 experts topk 2"},
            {"latent": {"kv_rank": 512, "nope_dim": 128, "rope_dim": 64, "value_dim": 128}},
            "latent attention has the dimensions of DeepSeek-V2-Lite",
        ),
        (
            {
                **EXPERTS,
                "model": "moe:gpt9_x",
                "kv_heads": "",
                "notes": "MoE 8 experts topk 2; flags: swiglu",
            },
            {"family": "gpt", "bias": False, "activation": "swiglu"},
            "the model has GPT-2's architecture with the stated dimensions",
        ),
        (
            {"model": "google/t5-v1_1-x", "kv_heads": "", "ffn": "256"},
            {"family": "t5", "encoder_layers": 2, "decoder_layers": 2, "activation": "geglu", "tied": False},
            "encoder and decoder have 2 layers each, and targets are as long as inputs",
        ),
    ],
)
def test_models_are_what_rows_state_of_them(tmp_path, change, model, assumed):
    found = scenario_of(run_of(tmp_path, **change))
    Scenario.of(found.data)
    assert {key: found.data["model"].get(key) for key in model} == model
    assert (assumed in found.assumed) if assumed else set(found.assumed) <= {CLIPPED}


@pytest.mark.parametrize(
    ("change", "roles", "assumed"),
    [
        ({"expert": "4"}, None, False),
        ({"expert": "8"}, {"experts": ["expert", "tensor"]}, True),
        ({"expert": "4", "framework": "nemo"}, {"experts": ["expert", "tensor"]}, True),
        ({"expert": "2", "model": "moe:gpt_etp1"}, {"experts": ["tensor"]}, False),
        ({"expert": "4", **PARTS}, {"experts": ["expert", "context"]}, False),
    ],
)
def test_experts_fill_tensor_ranks_where_they_are_whole(tmp_path, change, roles, assumed):
    said = {"model": "moe:gpt_x", "ffn": "64", "notes": "MoE 8 experts topk 2", **change}
    found = scenario_of(run_of(tmp_path, **said))
    Scenario.of(found.data)
    assert found.data["parallel"].get("roles") == roles
    assert any("experts are not split" in text for text in found.assumed) is assumed


@pytest.mark.parametrize(
    ("column", "words", "plain"),
    [
        ("precision", "BF16-mixed", "bf16"),
        ("precision", "bf16/fp8 blockwise", "fp8"),
        ("recompute", "uniform", "full"),
        ("recompute", "block 1 layer", "full (block, 1)"),
        ("recompute", "off", "none"),
        ("zero_stage", "Distributed Optimizer", "1"),
        ("offload", "no", "none"),
        ("framework", "NeMo 2.0", "nemo"),
        ("hardware", "Atlas 800T A2", "Ascend 910B"),
    ],
)
def test_other_words_mean_the_same(tmp_path, column, words, plain):
    said, meant = (scenario_of(run_of(tmp_path, **{column: text})) for text in (words, plain))
    assert said.data == meant.data


@pytest.mark.parametrize(
    ("stages", "chunks", "layers"),
    [("8", "", [8, 8, 8, 8, 8, 8, 8, 5]), ("4", "4", [[4] * 4] * 3 + [[4, 4, 4, 1]])],
)
def test_the_last_stage_has_fewer_layers_beside_those_of_further_tokens(tmp_path, stages, chunks, layers):
    mesh = {"num_devices": "8", "tensor": "1", "data": str(8 // int(stages)), "pipeline": stages}
    said = {"model": "deepseekv3", "layers": "61", "framework": "nemo", "virtual_pipeline": chunks, **mesh}
    found = scenario_of(run_of(tmp_path, **said))
    assert found.data["parallel"]["schedule"]["stages"] == layers


def test_frameworks_without_a_profile_get_the_nearest(tmp_path):
    for change, nearest in (
        ({}, "megatron-core"),
        ({"tensor": "1", "data": "8", "zero_stage": "3"}, "fsdp"),
        ({"tensor": "1", "data": "8", "zero_stage": "0"}, "ddp"),
    ):
        found = scenario_of(run_of(tmp_path, framework="own", **change))
        assert found.data["framework"] == nearest
        assert f"the framework profile is {nearest}: there is none for 'own'" in found.assumed


@pytest.mark.parametrize(
    ("words", "recompute"),
    [
        (
            "selective (layernorm,moe_act)",
            ["layers.*.{attention,mlp}.norm", "layers.*.mlp.experts.activation"],
        ),
        ("selective mlp+core_attn", ["layers.*.mlp.{up,activation,down}*", CORE]),
        ("selective", [CORE]),
        ("selective moe", ["layers.*.mlp.experts.{up,activation}"]),
        ("selective [moe_act]", ["layers.*.mlp.experts.activation"]),
        ("selective (not stated)", [CORE]),
    ],
)
def test_parts_of_layers_are_recomputed(tmp_path, words, recompute):
    found = scenario_of(run_of(tmp_path, recompute=words))
    kept = [pattern for pattern in recompute if pattern == CORE or "down" in pattern]
    assert found.data["parallel"]["recompute"] == {
        "operators": recompute,
        **({"keep_outputs": kept} if kept else {}),
    }
    assert bool(set(found.assumed) - {CLIPPED}) is (words == "selective" or "not stated" in words)


def test_experts_are_not_the_mlp_that_is_recomputed(tmp_path):
    mixture = {**EXPERTS, "notes": "MoE 8 experts topk 2", "recompute": "selective mlp+core_attn"}
    found = scenario_of(run_of(tmp_path, **mixture)).data
    Scenario.of(found)
    assert found["parallel"]["recompute"] == {"operators": [CORE], "keep_outputs": [CORE]}
    alone = run_of(tmp_path, **{**mixture, "recompute": "selective mlp"})
    assert "recompute" not in scenario_of(alone).data["parallel"]


def test_every_other_layer_is_recomputed(tmp_path):
    found = scenario_of(run_of(tmp_path, recompute="selective (every other layer)", layers="5"))
    assert found.data["parallel"]["recompute"] == {"layers": ["layers.{0,2,4}"]}


TE = "impl transformer_engine; flags: deterministic-mode; no-gradient-accumulation-fusion"


@pytest.mark.parametrize(
    ("model", "notes", "attention", "workspace"),
    [
        ("gpt:gpt3_mcore_te_tp1_pp4_x", TE, "unfused", "32 MiB"),
        ("gpt:gpt3_mcore_te_tp1_pp4_resume_torch_dist_x", TE, None, "32 MiB"),
        ("gpt:gpt3_7b_tp1_pp4_memory_speed", TE, None, "32 MiB"),
        ("gpt:gpt3_mcore_te_tp1_pp4_x", "impl transformer_engine; flags: ", None, None),
        ("gpt:gpt3_mcore_tp1_pp4_x", "impl local; flags: deterministic-mode", None, "32 MiB"),
    ],
)
def test_megatrons_tests_run_the_attention_of_their_kind(tmp_path, model, notes, attention, workspace):
    row = run_of(tmp_path, framework="megatron-lm", model=model, notes=notes)
    found = scenario_of(row).data["framework"]
    Scenario.of(scenario_of(row).data)
    said = found if isinstance(found, dict) else {}
    assert said.get("attention") == attention
    assert said.get("storage", {}).get("workspace") == workspace
    if "fusion" in notes:
        assert list(said["accumulate"]) == list(said["storage"]["placeholders"]) == []


@pytest.mark.parametrize(
    ("source", "precision", "dropout"),
    [
        ("Vocabulary Parallelism paper Tables 5/6", "fp16", 0.1),
        ("sail-sg/VocabularyParallelism@HEAD:artifact/README.md", "bf16", 0),
    ],
)
def test_tables_of_one_paper_have_their_number_format(tmp_path, source, precision, dropout):
    row = run_of(tmp_path, framework="megatron-lm", source=source, precision="bf16/fp16 mixed")
    found = scenario_of(row).data
    assert (found["training"]["precision"], found["model"]["dropout"]) == (precision, dropout)


def test_schedules_that_a_search_finds_have_its_memory(tmp_path):
    halves = {"schedule": "zb-2p", "pipeline": "2", "tensor": "1", "zero_stage": "0"}
    schedule = scenario_of(run_of(tmp_path, **halves)).data["parallel"]["schedule"]
    kept = 32 * 256 / (34 * 256 + 5 * 4 * 128)
    assert schedule == {"kind": "zb_h2", "p2p": "overlapped", "kept_for_weights": pytest.approx(kept, 1e-2)}


@pytest.mark.parametrize(
    ("tensor", "zero", "scratch"),
    [("1", "1", {"optimizer": 1.0}), ("8", "0", {"loss": 4.0}), ("2", "1", {"optimizer": 1.0, "loss": 1.0})],
)
def test_mindspeeds_update_and_loss_hold_more(tmp_path, tensor, zero, scratch):
    """A copy of the largest shard; 2 bytes for each logit of all ranks, in multiples of a rank's 4 bytes."""
    said = {"data": str(8 // int(tensor)), "tensor": tensor, "zero_stage": zero}
    row = run_of(tmp_path, framework="mindspeed-llm", **said)
    Scenario.of(scenario_of(row).data)
    assert scenario_of(row).data["framework"]["storage"]["scratch"] == scratch


@pytest.mark.parametrize(
    ("framework", "notes", "stage"),
    [
        ("megatron-lm", "", 1),
        ("megatron-core", "FSDP=0", 1),
        ("megatron-core", "Megatron FSDP", 2),
        ("deepspeed", "", 2),
    ],
)
def test_megatron_scatters_gradients_once_a_step(tmp_path, framework, notes, stage):
    found = scenario_of(run_of(tmp_path, framework=framework, zero_stage="ZeRO-2", notes=notes))
    assert found.data["parallel"]["optimizer_sharding"] == {"zero": stage}
    assert any("once a step" in text for text in found.assumed) == (stage == 1)


@pytest.mark.parametrize(("stages", "stage"), [("1", 2), ("2", 1)])
def test_deepspeeds_pipelines_do_not_shard_gradients(tmp_path, stages, stage):
    plan = {"pipeline": stages, "tensor": "1", "data": str(8 // int(stages)), "zero_stage": "2"}
    found = scenario_of(run_of(tmp_path, framework="megatron-deepspeed", **plan)).data
    assert found["parallel"]["optimizer_sharding"] == {"zero": stage}


def test_sharded_weights_without_stages_are_those_of_fsdp(tmp_path):
    found = scenario_of(run_of(tmp_path, framework="metaseq", zero_stage="3"))
    assert found.data["framework"] == "fsdp"


def test_interleaving_of_an_unknown_number_of_chunks_has_two(tmp_path):
    found = scenario_of(run_of(tmp_path, schedule="interleaved-1f1b", pipeline="2", tensor="1", layers="4"))
    assert found.data["parallel"]["schedule"] == {"kind": "interleaved", "chunks": 2}
    assert any("no number is stated" in text for text in found.assumed)
    odd = scenario_of(run_of(tmp_path, schedule="interleaved-1f1b", pipeline="2", tensor="1", layers="3"))
    assert "schedule" not in odd.data["parallel"]


_OTHER_SCALES = "parenthesised variant (different quantisation granularity: 32x32 on B200, 128x128 on H100)"


@pytest.mark.parametrize(
    ("precision", "hardware", "notes", "matmul", "traffic", "transposes"),
    [
        ("FP8_CS", "B200 SXM", "", "fp8", 1.67, False),
        ("fp8 (current scaling)", "H100-80GB SXM", "", "fp8", 1.5, None),
        ("fp8 (see notes)", "GB200 (NVL72)", "", "fp8", 1.67, False),
        ("FP8-MX", "GB300 (NVL72)", "", "mxfp8", None, None),
        ("FP8 MX", "B200 SXM", "", "mxfp8", None, None),
        ("FP8_SC", "B300 SXM", "", "mxfp8", None, None),
        ("FP8_SC", "H100-80GB SXM", "", "fp8", None, None),
        ("FP8_SS", "H100-80GB SXM", "", "fp8", None, None),
        ("FP8 (CS)", "B200 SXM", "", "fp8", 1.67, False),
        ("FP8-DS", "B200 SXM", "", "fp8", None, False),
        ("fp8", "B200 SXM", "25.04 NeMo Container", "fp8", None, False),
        ("fp8", "B200 SXM", "25.09 NeMo Container", "fp8", 1.67, False),
        ("fp8 (see notes)", "B200 SXM", _OTHER_SCALES, "mxfp8", None, None),
        ("fp8 (see notes)", "H100-80GB SXM", _OTHER_SCALES, "fp8", None, None),
    ],
)
def test_scales_are_those_of_the_named_recipe(
    tmp_path, precision, hardware, notes, matmul, traffic, transposes
):
    row = run_of(tmp_path, framework="nemo", precision=precision, hardware=hardware, notes=notes)
    data = scenario_of(row).data
    framework = data["framework"]
    assert data["training"]["precision"]["matmul"] == matmul
    assert (framework["traffic"].get("fp8_cast"), framework.get("fp8_transposes")) == (traffic, transposes)


@pytest.mark.parametrize(("precision", "alone"), [("fp8 (current scaling)", True), ("bf16", None)])
def test_fp8_runs_of_megatron_bridge_hold_their_weights_in_fp8(tmp_path, precision, alone):
    framework = scenario_of(run_of(tmp_path, framework="nemo", precision=precision)).data["framework"]
    assert framework.get("storage", {}).get("fp8_weights") is alone


@pytest.mark.parametrize(
    ("model", "said"),
    [("bert:bert_mcore_tp2_pp2", {"masked": 1.0}), ("t5:t5_mcore_te_tp4_pp1", {"decoder_seq_len": 128})],
)
def test_megatrons_bert_and_t5_are_computed_as_there(tmp_path, model, said):
    row = run_of(tmp_path, framework="megatron-lm", model=model, layers="24", notes=TE)
    found = scenario_of(row).data
    Scenario.of(found)
    assert said.items() <= found["model"].items()


@pytest.mark.parametrize(("notes", "dropout"), [("", 0.1), ("; multi-latent-attention", 0)])
def test_mixtures_of_megatrons_tests_have_the_scripts_dropout(tmp_path, notes, dropout):
    said = "MoE 8 experts topk 2; NVIDIA CI golden values (dev)" + notes
    row = run_of(tmp_path, framework="megatron-lm", model="moe:gpt3_mcore_te_x", ffn="64", notes=said)
    assert scenario_of(row).data["model"]["attention_dropout"] == dropout


@pytest.mark.parametrize(
    ("schedule", "notes", "clip", "run"),
    [
        ("zb-2p", "optimizer post-validation for ZB", None, {"steps": 16}),
        ("1f1b", "optimizer post-validation for ZB", 1.0, None),
        ("zb-2p", "", 1.0, None),
    ],
)
def test_stages_that_wait_for_no_norm_begin_steps_one_after_another(tmp_path, schedule, notes, clip, run):
    row = run_of(tmp_path, schedule=schedule, notes=notes, pipeline="2", tensor="1", zero_stage="0")
    scenario = scenario_of(row).data
    assert (scenario["training"]["optimizer"]["clip"], scenario.get("run")) == (clip, run)


@pytest.mark.parametrize(
    ("source", "profile"),
    [
        ("images/cases_april2021.png (SC21 Table 1)", "megatron-lm-2021"),
        ("images/tables.tex (2020 README)", "megatron-lm-2021"),
        ("seqsel (arXiv 2205.05198)", "megatron-lm-2022"),
    ],
)
def test_releases_of_megatron_have_the_switches_of_their_year(tmp_path, source, profile):
    assert scenario_of(run_of(tmp_path, framework="megatron-lm", source=source)).data["framework"] == profile


@pytest.mark.parametrize(
    ("heads", "kv_heads", "split"),
    [
        ("8", "4", {"heads": ["tensor", "context"]}),
        ("8", "2", {"heads": ["tensor"], "group": ["context"]}),
        ("6", "2", None),
    ],
)
def test_fewer_key_heads_than_ranks_are_shared_in_an_exchange_of_heads(tmp_path, heads, kv_heads, split):
    said = {"framework": "mindspeed-llm", "context": "2", "data": "2", "heads": heads, "kv_heads": kv_heads}
    parallel = scenario_of(run_of(tmp_path, **said)).data["parallel"]
    entries = [entry["split"] for entry in parallel.get("strategies", [])]
    assert (entries, parallel.get("context")) == (([split], None) if split else ([], "ring"))


NO_GROUPS = {"groups": 1, "kept_groups": 1, "group_best": 1}
"""Too few experts for the groups of the catalog's model."""


@pytest.mark.parametrize(
    ("model", "notes", "section"),
    [
        ("deepseek-v2-60b (cut)", "", {"use": "deepseek-v2"}),
        (
            "ci:deepseek2_lite",
            "MoE 8 experts top2",
            {"use": "deepseek-v2-lite", "experts": {"count": 8, "top_k": 2}},
        ),
        (
            "ci:deepseek_v3_mcore",
            "MoE 16 experts top8; flags: first-k-dense-replace=1",
            {"use": "deepseek-v3", "mtp_layers": 0, "experts": {"count": 16, "top_k": 8, "dense_layers": 1}},
        ),
        (
            "DeepSeek V3.2",
            "MoE 8 experts top2; flags: first-k-dense-replace=0",
            {
                "use": "deepseek-v3.2",
                "mtp_layers": 0,
                "experts": {"count": 8, "top_k": 2, "dense_layers": 0, **NO_GROUPS},
            },
        ),
    ],
)
def test_mixtures_of_the_catalog_have_the_width_of_their_experts(tmp_path, model, notes, section):
    """The column of the MLP's width is that of a layer without experts."""
    row = run_of(tmp_path, model=model, framework="mindspeed-llm", ffn="12288", kv_heads="", notes=notes)
    found = scenario_of(row).data["model"]
    assert {key: found.get(key) for key in ("use", "mtp_layers", "experts") if key in found} == section
    assert found["ffn"] == 12288
    row = run_of(tmp_path, model=model, framework="megatron-core", ffn="1408", kv_heads="")
    assert ("ffn" in scenario_of(row).data["model"]) == ("lite" not in model)


def test_baichuan_13b_adds_distances_to_scores(tmp_path):
    models = (("ci:baichuan2_13b_tp8", "alibi"), ("baichuan2-7b", None), ("Baichuan-13B", "alibi"))
    for model, positions in models:
        row = run_of(tmp_path, model=model, framework="mindspeed-llm", ffn="13696")
        assert scenario_of(row).data["model"].get("positions") == positions


def test_mindformers_selects_activations(tmp_path):
    row = run_of(tmp_path, framework="mindformers", recompute="select_recompute")
    assert scenario_of(row).data["parallel"]["recompute"] == {
        "operators": ["*layers.*.mlp{,.experts}.activation"]
    }


def test_some_tensor_ranks_share_experts_and_others_have_others(tmp_path):
    said = {"model": "moe:x_etp2", "notes": "MoE 8 experts topk 2", "ffn": "2048"}
    plan = {"tensor": "4", "expert": "2", "data": "2", "zero_stage": "1"}
    parallel = scenario_of(run_of(tmp_path, **said, **plan, framework="megatron-lm")).data["parallel"]
    assert parallel["mesh"] == {"data": 2, "tensor_experts": 2, "tensor_ffn": 2}
    assert parallel["roles"] == {"experts": ["tensor_experts"], "tensor": ["tensor_experts", "tensor_ffn"]}
    assert parallel["strategies"][-1]["split"] == {"experts": "experts", "ffn": "tensor_ffn"}


@pytest.mark.parametrize(
    ("name", "mesh"),
    [("tp4_tp2d_tpx2tpy2", {"data": 2, "tensor_y": 2, "tensor_x": 2}), ("tp4_tp2d", "does not state")],
)
def test_tensor_ranks_split_both_dims_of_matrices(tmp_path, name, mesh):
    row = run_of(
        tmp_path, model=f"ci:llama2_{name}", framework="mindspeed-llm", tensor="4", data="2", notes="tp-2d"
    )
    if isinstance(mesh, str):
        with pytest.raises(PlanError, match=mesh):
            scenario_of(row)
        return
    found = scenario_of(row).data["parallel"]
    assert (found["mesh"], found["recipe"]) == (mesh, "tensor_2d")
    Scenario.of(scenario_of(row).data)


def test_dispatchers_of_mindspeed_have_as_many_calls_as_their_code(tmp_path):
    said = {"framework": "mindspeed-llm", "model": "moe:x", "ffn": "2048"}
    calls = []
    for name in ("allgather", "alltoall_seq", "alltoall"):
        notes = f"MoE 8 experts top2; flags: moe-token-dispatcher-type={name}; use-flash-attn"
        framework = scenario_of(run_of(tmp_path, **said, notes=notes)).data["framework"]
        calls.append({**framework.get("calls", {})}.get("dispatch"))
    assert calls == [22, 24, None]


def test_four_context_ranks_on_two_levels_are_rings_of_pairs(tmp_path):
    said = {"model": "gpt:gpt3_cp4_a2a_p2p", "framework": "megatron-lm", "context": "4", "data": "2"}
    parallel = scenario_of(run_of(tmp_path, **said, kv_heads="4", heads="4")).data["parallel"]
    assert parallel["mesh"] == {"data": 2, "context": 2, "context_heads": 2, "tensor": 2}
    assert (parallel["context"], parallel["roles"]) == ("ring", {"sequence": ["context", "context_heads"]})
    split = parallel["strategies"][0]["split"]
    assert split == {"heads": ["tensor", "context_heads"], "seq": "context"}
    with pytest.raises(PlanError, match="two levels"):
        scenario_of(run_of(tmp_path, **{**said, "context": "8", "data": "1"}))


def test_the_width_of_dense_layers_is_not_taken_for_that_of_experts(tmp_path):
    notes = "MoE 16 experts top2; flags: first-k-dense-replace=1"
    with pytest.raises(PlanError, match="not that of its experts"):
        scenario_of(run_of(tmp_path, model="ci:x", framework="mindspeed-llm", ffn="10944", notes=notes))


@pytest.mark.parametrize(
    ("model", "second"),
    [("gemma2-9b", True), ("ci:gemma2_tp8", True), ("gemma-2b", None), ("gemma-7b", None)],
)
def test_the_second_gemma_is_no_gemma_of_two_billion(tmp_path, model, second):
    found = scenario_of(run_of(tmp_path, model=model, framework="mindspeed-llm", ffn="1024")).data["model"]
    assert (found.get("post_norms"), found.get("capped_logits")) == (second, second)
