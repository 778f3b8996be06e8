"""Figures as publishers name them: rates of steps, whole runs, multiples, and FLOP/s of neither kind."""

from __future__ import annotations

import pytest

from simcluster.accuracy.runs import predict_runs
from simcluster.accuracy.runs.flop_rate import implied_step
from simcluster.accuracy.runs.scenarios import known_words
from simcluster.work import DType
from tests.support.published_runs import run_of

STEP = {"seq_len": "128", "global_batch": "16", "num_devices": "8"}  # 2,048 tokens on 8 devices


@pytest.mark.parametrize(
    ("metric", "value", "unit", "seconds"),
    [
        ("it/s", "2", "it/s", 0.5),
        ("steps per second", "2", "", 0.5),
        ("iterations/hour", "7,200", "", 0.5),
        ("images/s", "32", "", 0.5),
        ("throughput", "0.004096", "M tokens/s", 0.5),
        ("throughput", "0.35389440", "B tokens/day", 0.5),
        ("tokens per day", "0.35389440", "B", 0.5),
        ("Training time for 300B tokens (days)", "1", "days", 86400 * 2048 / 300e9),
        ("days for 300B tokens", "1", "", 86400 * 2048 / 300e9),
        ("GPU hours per trillion tokens (K)", "8", "", 3.6e6 * 2048 / 1e12),
        ("A100 hours for 1.4T tokens", "8", "", 3600 * 2048 / 1.4e12),
        ("latency to train on 300B tokens", "1", "minutes", 60 * 2048 / 300e9),
    ],
)
def test_times_of_steps(tmp_path, metric, value, unit, seconds):
    run = run_of(tmp_path, **STEP, metric=metric, value=value, unit=unit)
    assert run.step_seconds == pytest.approx(seconds)


@pytest.mark.parametrize(("framework", "metric"), [("torchtitan", "tps"), ("TorchTitan", "wps")])
def test_torchtitan_logs_the_tokens_of_a_device(tmp_path, framework, metric):
    run = run_of(tmp_path, **STEP, framework=framework, metric=metric, value="512")
    assert run.step_seconds == pytest.approx(0.5)
    assert run_of(tmp_path, **STEP, metric="tps", value="4096").step_seconds == pytest.approx(0.5)


@pytest.mark.parametrize("metric", ["memory (%)", "speedup", "epoch time"])
def test_what_is_no_figure_stays_unknown(tmp_path, metric):
    run = run_of(tmp_path, metric=metric, value="80", unit="%", peak_mem_gib="")
    assert (run.step_seconds, run.peak_memory) == (None, None)


def test_a_run_that_fits_says_so(tmp_path):
    assert [run_of(tmp_path, metric="fits", value=said).fits for said in ("yes", "no")] == [True, False]


@pytest.mark.parametrize(
    ("metric", "framework", "source", "passes"),
    [
        ("TFLOPS per GPU", "Megatron-DeepSpeed", "", 4),
        ("throughput (TFLOPs/GPU)", "DeepSpeed", "", 4),
        ("aggregate petaFLOP/s", "Megatron-LM", "SC21 (2104.04473), table 1", 4),
        ("% of theoretical peak FLOP/s", "Alpa", "", 4),
        ("TFLOPS per GPU", "Megatron-LM", "", 3),
        ("Model TFLOPS per GPU", "DeepSpeed", "", 3),
        ("MFU", "DeepSpeed", "", 3),
        ("hw_tflops_per_gpu", "Megatron-LM", "", 4),
    ],
)
def test_what_is_computed_again_counts_where_publishers_count_it(tmp_path, metric, framework, source, passes):
    """BLOOM's 150 TFLOP/s are those of four passes: 105 s a step, not 79."""
    row = run_of(tmp_path, metric=metric, value="1", framework=framework, source=source)
    summary = {
        "mfu": 0.3,
        "hfu": 0.4,
        "mfu_full_attention": 0.3,
        "hfu_full_attention": 0.4,
        "model_flops_per_s_per_device": 0.3e12,
        "step_time_s": 1.0,
    }
    seconds, _ = implied_step(row, summary, {DType.BF16: 1e12, DType.FP16: 1e12})
    rate = row.value * (1e10 if metric == "MFU" or "%" in metric else 1e12)
    rate /= 8 if metric.startswith("aggregate") else 1
    assert seconds == pytest.approx(passes * 1e11 / rate)


@pytest.mark.parametrize(
    ("framework", "source", "metric", "full"),
    [
        ("NeMo 24.07", "", "mfu", True),
        ("NeMo", "NeMo 24.12 performance summary", "mfu", True),
        ("NeMo 25.04", "", "mfu", False),
        ("Megatron Bridge", "", "mfu", False),
        ("HAI-LLM", "", "mfu", False),
        ("Megatron Bridge", "", "MFU (non-causal)", True),
        ("DeepSpeed", "", "MFU (causal)", False),
    ],
)
def test_scores_that_a_rate_counts(tmp_path, framework, source, metric, full):
    row = run_of(tmp_path, metric=metric, value="50", framework=framework, source=source)
    shares = {"mfu": 0.3, "mfu_full_attention": 0.6}
    summary = {**shares, "hfu": 0.3, "model_flops_per_s_per_device": 3e11, "step_time_s": 1.0}
    seconds, how = implied_step(row, summary, {DType.BF16: 1e12, DType.FP16: 1e12})
    assert seconds == pytest.approx(1.2 if full else 0.6)
    assert ("full square" in how) is full


@pytest.mark.parametrize(
    ("change", "counted"),
    [
        ({"notes": "mem by nvidia-smi: 36.2/40.0"}, "device"),
        ({"source": "FlagOpen/FlagPerf@HEAD:training/nvidia/llama2_7b"}, "device"),
        ({"source": "InternLM/InternEvo@develop:doc/usage.md"}, "device"),
        ({"metric": "max reserved memory (GiB)", "value": "2", "peak_mem_gib": ""}, "reserved"),
        ({"notes": "max allocated; reserved 3.1 GiB"}, "allocated"),
    ],
)
def test_memory_is_that_which_a_row_states(tmp_path, change, counted):
    row = run_of(tmp_path, **change)
    assert known_words().counted_memory(row.words) == counted
    (memory,) = [one for one in predict_runs([row]) if one.figure == "peak memory"]
    (tensors,) = [one for one in predict_runs([run_of(tmp_path)]) if one.figure == "peak memory"]
    assert memory.measured == 2**31
    more = memory.predicted - tensors.predicted
    assert more > 2**28 if counted == "device" else 0 <= more < 2**28


def test_a_plan_without_room_says_so(tmp_path):
    large = {"layers": "96", "hidden": "12288", "heads": "96", "peak_mem_gib": ""}
    (prediction,) = predict_runs([run_of(tmp_path, **large)])
    assert any("more memory than a device has" in text for text in prediction.assumed)
