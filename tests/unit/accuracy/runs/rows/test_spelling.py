"""Rows as publishers spell them mean what the tables' words mean; what would be misread says why."""

from __future__ import annotations

import pytest

from simcluster.accuracy.runs import scenario_of
from simcluster.accuracy.runs.scenarios.offloading import offloading_of
from simcluster.errors import PlanError, ScenarioError
from simcluster.scenario import Scenario
from tests.support.published_runs import run_of

STAGES = {"pipeline": "2", "data": "2"}
LLAMA = {"kv_heads": "2", "ffn": "512"}


@pytest.mark.parametrize(
    ("column", "spelt", "plain"),
    [
        *(
            ("zero_stage", words, "3")
            for words in ("Stage 3", "ZeRO-3", "zero3", "FSDP", "full_shard", "os+g+p")
        ),
        *(("zero_stage", words, "2") for words in ("SHARD_GRAD_OP", "os+g", "ZeRO Stage 2")),
        *(("zero_stage", words, "1") for words in ("dist-opt", "Distributed optimizer", "ZeRO-1", "os")),
        *(
            ("zero_stage", words, plain)
            for words, plain in (
                ("3 (without model parallelism)", "3"),
                ("FSDP (full shard)", "3"),
                ("FSDP (ZeRO-2)", "2"),
                ("Pos+g", "2"),
                ("optimizer parallel", "1"),
            )
        ),
        *(("zero_stage", words, "0") for words in ("DDP", "no_shard", "none", "")),
        *(
            ("schedule", words, "interleaved-1f1b")
            for words in ("VPP", "1F1B Interleaved", "Interleaved1F1B")
        ),
        *(("schedule", words, "gpipe") for words in ("GPipe", "F-then-B", "AFAB")),
        *(("schedule", words, "1f1b") for words in ("1F1B", "PipeDream-Flush", "dapple")),
        *(("precision", words, "fp8") for words in ("float8", "FP8-CS", "bf16 + float8")),
        *(("precision", words, "bf16") for words in ("BF16", "bfloat16", "bf16-mixed", "AMP_BF16")),
        *(("recompute", words, "full") for words in ("True", "yes", "ckpt", "full, uniform 1", "All layers")),
        *(("recompute", words, "none") for words in ("False", "No", "Off")),
        *(
            ("recompute", words, "selective (attention core)")
            for words in (
                "core attention",
                "attn only",
                "Selective: core_attn",
                "selective (flash attention)",
            )
        ),
        *(("sequence_parallel", words, "true") for words in ("True", "yes", "1")),
        *(("offload", words, "none") for words in ("False", "N/A", "no")),
        *(("framework", words, "megatron-core") for words in ("Megatron Core", "mcore v0.12", "Primus")),
        *(("framework", words, "mindspeed-llm") for words in ("MindSpeed", "ModelLink", "MindSpeed-LLM 1.0")),
        *(("framework", words, "llm-foundry") for words in ("LLM Foundry (Composer)", "MosaicML Composer")),
        ("framework", "NVIDIA NeMo", "nemo"),
        ("framework", "PyTorch (NVIDIA DeepLearningExamples)", "nvidia-dle"),
        ("recompute", "RMSNorm", "layernorm"),
        ("recompute", "layernorm, core attn, SwiGLU", "layernorm+core_attn+activation"),
        *(("framework", words, "pytorch-fsdp") for words in ("FSDP2", "fms-fsdp", "PyTorch FSDP")),
        ("seq_len", "4k", "4096"),
        ("seq_len", "4,096", "4096"),
        ("virtual_pipeline", "0", "1"),
        ("kv_heads", "n/a", ""),
    ],
)
def test_spellings_mean_the_same(tmp_path, column, spelt, plain):
    others = STAGES if column == "schedule" else {}
    found = scenario_of(run_of(tmp_path, **others, **{column: spelt})).data
    assert found == scenario_of(run_of(tmp_path, **others, **{column: plain})).data
    Scenario.of(found)


@pytest.mark.parametrize(
    ("metric", "value", "unit", "seconds"),
    [
        ("step_time", "500", "ms", 0.5),
        ("Iteration time", "0.5", "s", 0.5),
        ("throughput", "32", "samples/s", 0.5),
        ("throughput", "4096", "tokens/s", 0.5),
        ("throughput", "512", "tokens/s/NPU", 0.5),
        ("tokens_per_s_per_npu", "512", "tokens/p/s", 0.5),
        ("tokens/sec/GPU", "512", "", 0.5),
        ("tokens_per_second", "4.096", "ktok/s", 0.5),
        ("ips", "512", "tok/s/card", 0.5),
        ("TGS", "512", "", 0.5),
        ("tokens_per_s", "4,096", "tokens/s", 0.5),
        ("tokens_per_s", "4.096k", "tokens/s", 0.5),
        ("step_time", "500 ms", "", 0.5),
        ("step_time", "0.5 s", "s", 0.5),
        ("samples per minute", "1920", "", 0.5),
        ("iteration_time_ms", "500", "", 0.5),
        ("s/it", "0.5", "", 0.5),
        ("time per step", "0.5", "hours", 1800.0),
        ("elapsed time per iteration (ms)", "500", "ms", 0.5),
        ("time_to_train", "1", "days", 86400 * 16 * 128 / 300e9),
    ],
)
def test_figures_are_read_in_their_unit(tmp_path, metric, value, unit, seconds):
    run = run_of(tmp_path, metric=metric, value=value, unit=unit, notes="300 billion tokens")
    assert run.step_seconds == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("metric", "value", "unit", "read"),
    [
        ("mfu", "0.5", "fraction", 50.0),
        ("MFU", "0.5", "", 50.0),
        ("mfu", "0.5", "%", 0.5),
        ("mfu", "50%", "", 50.0),
        ("aggregate_tflops", "2.5", "PFLOP/s", 2500.0),
        ("model_tflops_per_gpu", "400", "TFLOP/s/GPU", 400.0),
        ("PFLOPS", "2.5", "", 2500.0),
        ("TFLOPs per GPU", "400", "", 400.0),
        ("Model FLOPs Utilization", "47.1", "percent", 47.1),
    ],
)
def test_rates_are_in_teraflops_and_per_cent(tmp_path, metric, value, unit, read):
    assert run_of(tmp_path, metric=metric, value=value, unit=unit).value == pytest.approx(read)


def test_a_row_may_state_memory_or_its_lack_in_place_of_a_time(tmp_path):
    assert run_of(tmp_path, value="OOM").fits is False
    assert run_of(tmp_path, metric="peak_mem", value="2048", unit="MiB", peak_mem_gib="").peak_memory == 2**31
    assert run_of(tmp_path, value="").peak_memory == 2**31
    assert run_of(tmp_path, peak_mem_gib="2 GiB").peak_memory == 2**31
    assert run_of(tmp_path, peak_mem_gib="2 GB").peak_memory == pytest.approx(2e9)


@pytest.mark.parametrize("cells", [{"value": "3,7k"}, {"value": "1.2.3 k"}, {"peak_mem_gib": "1.2.3 GiB"}])
def test_what_is_no_number_is_a_mistake_of_the_row(tmp_path, cells):
    """A decimal comma, or two points, beside a unit."""
    with pytest.raises(ScenarioError):
        run_of(tmp_path, **cells)


@pytest.mark.parametrize(
    "notes",
    [
        "MoE 8 experts top2",
        "MoE: 8 experts, top-2",
        "num_experts=8; topk=2",
        "8 routed experts, top 2",
        "moe_ffn_hidden=512; E=8 top_k: 2",
    ],
)
@pytest.mark.parametrize("model", ["mine", "llama-moe", "qwen2-moe"])
def test_mixtures_are_read_whatever_the_name(tmp_path, model, notes):
    found = scenario_of(run_of(tmp_path, **LLAMA, model=model, notes=notes)).data["model"]
    assert found["experts"] == {"count": 8, "top_k": 2, "ffn": 512}


@pytest.mark.parametrize(
    ("change", "section", "value"),
    [
        ({"notes": "sliding window attention 64"}, "window", 64),
        ({"notes": "head_dim=128"}, "head_dim", 128),
        ({"notes": "tied embeddings"}, "tied", True),
        ({"heads": "6"}, "head_dim", 128),
        ({"ffn": ""}, "ffn", 768),
    ],
)
def test_notes_state_what_columns_do_not(tmp_path, change, section, value):
    assert (
        scenario_of(run_of(tmp_path, **{**LLAMA, "model": "mine", **change})).data["model"][section] == value
    )


@pytest.mark.parametrize(("model", "use"), [("bert-48l", "bert-large"), ("BERT-base", "bert-base")])
def test_encoders_are_no_decoders(tmp_path, model, use):
    found = scenario_of(run_of(tmp_path, model=model)).data
    assert (found["model"]["use"], found["model"]["layers"]) == (use, 2)
    Scenario.of(found)


def test_a_model_of_the_catalog_has_its_sizes(tmp_path):
    unsized = {"layers": "", "hidden": "", "heads": "", "vocab": "", "model": "Qwen3-0.6B"}
    assert scenario_of(run_of(tmp_path, **unsized)).data["model"]["use"] == "qwen3-0.6b"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"expert": "2"}, "a mixture of experts, and the row does not state how many experts it has"),
        ({"notes": "MoE 8 experts"}, "does not state how many experts a token uses"),
        ({"model": "mamba2-2.7b"}, "layers with a recurrent state instead of attention"),
        ({"model": "llava-7b"}, "parts other than a text decoder"),
        ({"model": "llama2-7b LoRA"}, "low-rank adapters"),
        ({"precision": "MXFP4"}, "training in MXFP4"),
        ({"offload": "activation offload"}, "some activations are offloaded"),
    ],
)
def test_what_would_be_misread_says_why(tmp_path, change, reason):
    with pytest.raises(PlanError, match=reason):
        scenario_of(run_of(tmp_path, **change))


def test_latent_projections_are_no_adapters(tmp_path):
    assert "latent" in scenario_of(run_of(tmp_path, notes="MLA, q_lora 1536, kv_lora 512")).data["model"]


@pytest.mark.parametrize(
    ("words", "layers"),
    [("1/2", [0, 2]), ("selective (2)", [0, 2]), ("selective 1/4", [1]), ("3 of 4 layers", [0, 1, 2])],
)
def test_some_layers_are_recomputed(tmp_path, words, layers):
    found = scenario_of(run_of(tmp_path, layers="4", recompute=words)).data["parallel"]["recompute"]
    assert found == {"layers": [f"layers.{{{','.join(map(str, layers))}}}"]}


@pytest.mark.parametrize(
    ("words", "framework", "parallel"),
    [
        ("CPU optimizer offload", "megatron-core", {"offload": {"optimizer_states": "host"}}),
        ("ZeRO-Offload", "deepspeed", {"host": ["*.update"], "offload": {"gradients": "host"}}),
        (
            "optimizer (NVMe) + params",
            "deepspeed",
            {
                "host": ["*.update"],
                "offload": {"gradients": "host", "optimizer_states": "disk", "parameters": "host"},
            },
        ),
    ],
)
def test_offload(tmp_path, words, framework, parallel):
    assert (
        offloading_of(run_of(tmp_path, offload=words, framework=framework, zero_stage="3")).parallel
        == parallel
    )


@pytest.mark.parametrize(
    ("stage", "notes", "ranks"), [("HSDP", "", 4), ("HSDP", "shard 2", 2), ("1 (group 2)", "", 2)]
)
def test_states_split_within_groups(tmp_path, stage, notes, ranks):
    found = scenario_of(run_of(tmp_path, zero_stage=stage, notes=notes)).data
    assert found["parallel"]["optimizer_sharding"]["shard_size"] == ranks
    Scenario.of(found)


@pytest.mark.parametrize(
    ("hardware", "host"),
    [
        ("A100-SXM4-40GB", "dgx-a100-40"),
        ("H100 PCIe", "a100-pcie-8"),
        ("A100 PCIe 40GB", "a100-pcie-8"),
        ("A100-80GB SXM (Jean Zay)", "jean-zay-a100"),
        ("A100-40GB SXM (JUWELS Booster)", "hgx-a100-four-cards"),
        ("Ascend 910_93", "cloudmatrix-384"),
        ("Intel Gaudi 2", "gaudi-2-8"),
        ("MI250X (Frontier)", "mi250x-4"),
        ("AWS p5en.48xlarge", "aws-p5en"),
        ("MI325X", "mi300x-8"),
    ],
)
def test_hardware_is_not_that_of_a_longer_name(tmp_path, hardware, host):
    cluster = scenario_of(run_of(tmp_path, hardware=hardware)).data["cluster"]
    assert host in (cluster.get("use"), cluster.get("host", {}).get("use"))


@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("hardware", ["V100 SXM2", "A100-PCIe 80GB"])
def test_a_part_of_an_island_is_used(tmp_path, hardware, devices):
    part = {
        "num_devices": str(devices),
        "data": str(devices),
        "tensor": "1",
        "devices_per_host": str(devices),
    }
    Scenario.of(scenario_of(run_of(tmp_path, hardware=hardware, **part)).data)


def test_a_network_names_a_cluster(tmp_path):
    stated = {"inter_link": "4x100G Omni-Path", "num_devices": "16", "data": "8"}
    assert scenario_of(run_of(tmp_path, **stated)).data["cluster"]["use"] == "jean-zay-a100"


def test_two_units_of_one_figure_are_an_error(tmp_path):
    with pytest.raises(ScenarioError, match="'500 ms' is not a number"):
        run_of(tmp_path, value="500 ms", unit="s")
