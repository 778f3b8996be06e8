"""Measured training runs: what a row means as a scenario, which step it states, and errors by group."""

from __future__ import annotations

import csv
import io

import pytest

from simcluster.accuracy.hardware import named_hardware
from simcluster.accuracy.runs import (
    COLUMNS,
    RunFigure,
    RunGrouping,
    predict_runs,
    read_runs,
    run_scenario_yaml,
    runs_csv,
    runs_markdown,
    runs_text,
    scenario_of,
)
from simcluster.accuracy.runs.report import run_errors_by_group
from simcluster.accuracy.stated_network import host_rate
from simcluster.cluster import load_cluster
from simcluster.errors import PlanError, ScenarioError
from simcluster.scenario import Scenario
from simcluster.simulation import simulate
from tests.support.published_runs import ROW, run_of, written


def test_a_row_is_the_scenario_that_one_would_write(tmp_path):
    assert scenario_of(run_of(tmp_path)).data == {
        "simcluster": 1,
        "name": "tests-gpt-0001",
        "cluster": {"use": "dgx-a100", "hosts": 1},
        "framework": "megatron-core",
        "model": {
            "family": "gpt",
            "layers": 2,
            "hidden": 256,
            "heads": 4,
            "vocab": 1024,
            "max_positions": 128,
        },
        "training": {
            "global_batch": 16,
            "micro_batch": 2,
            "seq_len": 128,
            "precision": "bf16",
            "optimizer": {"kind": "adamw", "clip": 1.0},
        },
        "parallel": {
            "mesh": {"data": 4, "tensor": 2},
            "recipe": "megatron_sp",
            "optimizer_sharding": {"zero": 1},
            "recompute": {"layers": "all"},
        },
    }


HALVES = {"pipeline": "2", "data": "2"}
"""A pipeline of two stages on the devices of the row."""

PARTS = {"context": "2", "data": "2"}
"""Sequences in two parts on these devices."""


@pytest.mark.parametrize(
    ("change", "path", "value"),
    [
        ({"tensor": "1", "data": "8"}, "parallel.mesh", {"data": 8}),
        ({"sequence_parallel": "false"}, "parallel.recipe", "megatron"),
        (
            {"framework": "torchtitan", "zero_stage": "3", "model": "llama3-8b", "ffn": "512"},
            "parallel.optimizer_sharding",
            "fsdp",
        ),
        ({"model": "gpt:x_rope_y"}, "model.positions", "rotary"),
        ({"notes": "untied embeddings"}, "model.tied", False),
        ({"framework": "megatron-lm"}, "framework", "megatron-lm-2022"),
        ({"framework": "megatron-lm", "source": "Vocabulary Parallelism"}, "framework", "megatron-core"),
        ({"notes": "LAMB"}, "training.optimizer.kind", "lamb"),
        ({"notes": "the optimizer is Muon"}, "training.optimizer.kind", "muon"),
        ({"model": "gpt:x_torch_dist_muon"}, "training.optimizer.matrices", "blockwise"),
        ({"num_devices": "4", "data": "2"}, "cluster.host.devices", 4),
        ({"hardware": "H100-96GB (HBM2e)"}, "cluster.host.device.memory", "95.04 GiB"),
        ({"num_devices": "16", "data": "8"}, "cluster.hosts", 2),
        # Of four racks of 18 trays a job of 64 trays has 16 each; one rack is taken as it is.
        (
            {"hardware": "GB200 NVL72", "num_devices": "256", "devices_per_host": "4", "data": "128"},
            "cluster.host.pod.hosts",
            16,
        ),
        (
            {"hardware": "GB200 NVL72", "num_devices": "64", "devices_per_host": "4", "data": "32"},
            "cluster",
            {"use": "gb200-nvl72", "hosts": 16},
        ),
        (
            {"model": "deepseekv3 (4 layers)", "expert": "4"},
            "parallel.mesh",
            {"data": 1, "expert": 4, "tensor": 2},
        ),
        (
            {**HALVES, "virtual_pipeline": "2", "schedule": "interleaved-1f1b"},
            "parallel.schedule",
            {"kind": "interleaved", "chunks": 2},
        ),
        (
            {"notes": "FSDP8 x TP8, compile; async TP"},
            "parallel.overlap",
            {"tensor": {"chunks": 2, "reductions": "forward"}},
        ),
        (
            {
                "source": "NVIDIA/DeepLearningExamples@0:TensorFlow2/LanguageModeling/BERT/README.md",
                "framework": "nvidia-dle",
                "precision": "fp16 AMP",
            },
            "framework.traffic.gelu",
            2.76,
        ),
        (
            {"source": "NVIDIA/DeepLearningExamples@0:PyTorch/LanguageModeling/BERT/README.md"},
            "training.optimizer",
            {"kind": "lamb", "clip": 1.0},
        ),
        ({"recompute": "full (block, 1)"}, "parallel.recompute", {"layers": 1}),
        ({"recompute": "full (block, 2)"}, "parallel.recompute", {"layers": "all"}),
        (
            {
                **HALVES,
                "layers": "8",
                "virtual_pipeline": "2",
                "schedule": "interleaved-1f1b",
                "recompute": "full (block, 1)",
            },
            "parallel.recompute",
            {"layers": [[1, 1], [1, 1]]},
        ),
        (
            {
                **HALVES,
                "framework": "mindspeed-llm",
                "layers": "8",
                "virtual_pipeline": "2",
                "schedule": "interleaved-1f1b",
                "recompute": "full (block, 3)",
            },
            "parallel.recompute",
            {"layers": [[2, 2], [1, 1]]},
        ),
        ({**HALVES, "schedule": "dualpipev"}, "parallel.schedule", {"kind": "dualpipe_v"}),
        (
            {**HALVES, "schedule": "v-half", "notes": "cfg=A; method vocab-1; untied embeddings"},
            "parallel.schedule",
            {"kind": "v_half", "vocabulary": "two_barriers", "p2p": "overlapped"},
        ),
        (PARTS, "parallel.mesh", {"data": 2, "context": 2, "tensor": 2}),
        (PARTS, "parallel.context", "ring"),
        (
            {**PARTS, "framework": "mindspeed-llm", "notes": "context-parallel-algo=megatron_cp_algo"},
            "parallel.context",
            "ring",
        ),
        (
            {"framework": "mindspeed-llm", "offload": "swap-optimizer"},
            "parallel.offload",
            {"optimizer_states": "host"},
        ),
        (
            {**PARTS, "notes": "CP all-to-all (Ulysses-type)"},
            "parallel.strategies",
            [{"match": "layers.*.attention.core{,.*}", "split": {"heads": ["tensor", "context"]}}],
        ),
        (
            {**PARTS, "tensor": "1", "data": "4", "notes": "CP all-to-all (Ulysses-type)"},
            "parallel.strategies",
            [{"match": "layers.*.attention.core{,.*}", "split": {"heads": ["context"]}}],
        ),
    ],
)
def test_what_rows_say_otherwise(tmp_path, change, path, value):
    found = scenario_of(run_of(tmp_path, **change)).data
    Scenario.of(found)
    for key in path.split("."):
        found = found[key]
    assert found == value


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"layers": ""}, "the row does not state layers"),
        (
            {**PARTS, "model": "gpt:cp4_a2a_p2p"},
            "context parallelism on two levels, of sizes that are not stated",
        ),
        ({"model": "nobody-7b", "heads": ""}, "no model is known as 'nobody-7b', and the row has no heads"),
        (
            {"expert": "3", "ffn": "64", "notes": "MoE 6 experts top2"},
            "4 data-parallel ranks cannot be divided among 3 expert-parallel ranks",
        ),
        ({"recompute": "selective (mlp, toe)"}, r"the recomputation 'selective \(mlp, toe\)'"),
        ({"precision": "int3"}, "the precision 'int3' is unknown"),
        ({"hardware": "abacus"}, "no host of the catalog matches the hardware 'abacus'"),
        ({"recompute": "some"}, "the recomputation 'some'"),
        ({"offload": "all of it"}, "the offload 'all of it'"),
        ({**HALVES, "schedule": "sideways"}, "the schedule sideways"),
        (
            {**HALVES, "schedule": "gpipe", "virtual_pipeline": "2"},
            "the schedule gpipe with 2 chunks a device",
        ),
    ],
)
def test_why_a_row_is_not_predicted(tmp_path, change, reason):
    with pytest.raises(PlanError, match=reason):
        scenario_of(run_of(tmp_path, **change))
    (step, memory) = predict_runs(read_runs(written(tmp_path, change)))
    assert step.reason == memory.reason == reason.replace("\\", "")


@pytest.mark.parametrize(
    ("metric", "value", "seconds"),
    [
        ("step_time", "0.5", 0.5),
        ("tokens_per_s_per_gpu", "512", 16 * 128 / 512 / 8),
        ("tokens_per_s", "4096", 0.5),
        ("samples_per_s", "32", 0.5),
        ("samples_per_s_per_gpu", "4", 0.5),
        ("model_tflops_per_gpu", "100", None),
    ],
)
def test_the_step_that_follows_from_a_figure(tmp_path, metric, value, seconds):
    assert run_of(tmp_path, metric=metric, value=value).step_seconds == seconds


TWO_HOSTS = {"num_devices": "16", "data": "8", "global_batch": "32"}


@pytest.mark.parametrize(
    ("stated", "network"),
    [
        ("", None),
        ("InfiniBand (unstated)", None),
        ("8x HDR200 InfiniBand (Selene)", None),
        ("RoCE 200Gb/s per GPU", None),
        ("1600Gb/s", None),
        ("800Gb/s per node InfiniBand", None),
        ("4x200Gb/s", {"nics": 4}),
        ("8x EDR IB 100Gb/s per node", {"nics": 4}),
        ("400Gb/s per GPU", {"nics": 8, "bandwidth": "400 Gbps"}),
        ("100Gb/s per node", {"nics": 1, "bandwidth": "100 Gbps"}),
        ("100GbE", {"nics": 1, "bandwidth": "100 Gbps"}),
        ("HDR InfiniBand 200 Gb/s x8", None),
        ("InfiniBand HDR200 x 4", {"nics": 4}),
        ("8x HDR InfiniBand", None),
        ("8x NDR InfiniBand", {"nics": 8, "bandwidth": "400 Gbps"}),
        ("200 Gb/s InfiniBand", None),
        ("25 GB/s per GPU", None),
        ("100 GB/s per node", {"nics": 4}),
        ("3.2 Tb/s per node", {"nics": 8, "bandwidth": "400 Gbps"}),
        ("4 NICs, 200 Gb/s per NIC", {"nics": 4}),
        ("PCIe4 x16, RoCE", None),
    ],
)
def test_hosts_have_the_network_that_a_row_states(tmp_path, stated, network):
    """A host of the catalog has eight cards of 200 Gb/s."""
    row = run_of(tmp_path, inter_link=stated, **TWO_HOSTS)
    cluster = scenario_of(row).data["cluster"]
    assert cluster.get("host", {}).get("network") == network
    (made,) = {Scenario.of(scenario_of(row).data).cluster.groups[0].host.network}
    rate = host_rate(stated, load_cluster("dgx-a100", 1).host, 8) or 1600e9
    assert made.nics * made.link.bandwidth * 8 == rate
    assert scenario_of(row, named_hardware("dgx-a100")).data["cluster"] == {"use": "dgx-a100", "hosts": 2}


@pytest.mark.parametrize(("devices", "network"), [("8", {"nics": 4}), ("12", {"nics": 4})])
def test_hosts_of_which_a_part_works_have_the_cards_of_that_part(tmp_path, devices, network):
    """Four or six devices on each of two hosts with cards for 800 Gb/s."""
    row = run_of(
        tmp_path,
        inter_link="800Gb/s per node",
        num_devices=devices,
        devices_per_host="4" if devices == "8" else "7",
        tensor="1",
        data=devices,
        global_batch="24" if devices == "12" else "16",
    )
    found = scenario_of(row).data
    assert found["cluster"]["host"]["network"] == network
    assert Scenario.of(found).cluster.num_devices == int(devices)


def test_one_host_needs_no_network(tmp_path):
    found = scenario_of(run_of(tmp_path, inter_link="800Gb/s per node")).data
    assert found["cluster"] == {"use": "hgx-a100-80-four-cards", "hosts": 1}


def test_a_share_of_the_peak_counts_flops_as_its_paper_does(tmp_path):
    """72 B s l h^2 (1 + s / 6h + V / 12lh), of which half the peak takes twice as long as all of it."""
    flops = 72 * 16 * 128 * 2 * 256**2 * (1 + 128 / (6 * 256) + 1024 / (12 * 2 * 256))
    said = {"metric": "mfu", "value": "50", "notes": "MFU vs 312 TFLOP/s", "framework": "megatron-lm"}
    (step, _) = predict_runs(read_runs(written(tmp_path, said)))
    assert step.measured == pytest.approx(flops / (0.5 * 312e12 * 8))
    assert step.assumed[-1] == "the stated FLOPs count attention as the full square"


def test_a_share_without_a_peak_is_of_the_format_that_its_publishers_take(tmp_path):
    said = {"metric": "mfu", "value": "50", "framework": "mindspeed-llm", "hardware": "Ascend 910B"}
    (step, _) = predict_runs(read_runs(written(tmp_path, said)))
    (stated, _) = predict_runs(read_runs(written(tmp_path, {**said, "notes": "MFU vs 313 TFLOP/s"})))
    assert step.measured == pytest.approx(stated.measured)
    assert step.assumed[-1].endswith("as the full square, and a share of the peak in fp16")


RATES = [("mfu", "100", 72), ("model_tflops_per_gpu", "312", 72), ("hw_tflops_per_gpu", "312", 96)]


@pytest.mark.parametrize(("metric", "value", "times"), RATES)
def test_rates_of_flops_imply_a_step(tmp_path, metric, value, times):
    """Of the model, or with the forwards that run again, and the scores that flash attention makes again.

    Half of the scores of attention count in Megatron-Core.
    """
    (step, _) = predict_runs(read_runs(written(tmp_path, {"metric": metric, "value": value})))
    layers = times * 16 * 128 * 2 * 256**2 * (1 + 128 / (12 * 256))
    if times == 96:
        layers += 16 * 128 * 2 * 128 * 256
    head = 72 * 16 * 128 * 2 * 256**2 * 1024 / (12 * 2 * 256)
    assert step.measured == pytest.approx((layers + head) / (312e12 * 8))


def test_predictions_are_those_of_the_scenario(tmp_path):
    rows = read_runs(written(tmp_path, {}, {"id": "tests-gpt-0002", "peak_mem_gib": ""}))
    told: list[tuple[int, int]] = []
    found = predict_runs(rows, watch=lambda done, total: told.append((done, total)))
    assert told == [(1, 2), (2, 2)]
    summary = simulate(Scenario.of(scenario_of(rows[0]).data)).documents["summary"]
    assert [each.figure for each in found] == [RunFigure.STEP, RunFigure.MEMORY, RunFigure.STEP]
    assert found[0].predicted == summary["step_time_s"] == found[2].predicted
    assert found[1].predicted == summary["allocated_memory_bytes_max"]
    assert found[0].error == summary["step_time_s"] / 0.5 - 1


@pytest.mark.exhaustive
def memory_of(tmp_path, **change) -> float:
    [_, memory] = predict_runs([run_of(tmp_path, peak_mem_gib="2", **change)])
    assert memory.figure is RunFigure.MEMORY
    return memory.predicted


def test_in_the_first_step_moments_come_with_the_update(tmp_path):
    run = run_of(tmp_path, framework="mindspeed-llm")
    documents = simulate(Scenario.of(scenario_of(run).data)).documents
    [stage] = documents["memory"]
    held = documents["summary"]["peak_memory_bytes"][0]["breakdown"]
    stays = sum(held[kind] for kind in ("parameters", "gradients", "optimizer_states"))
    assert stays <= memory_of(tmp_path, framework="mindspeed-llm") < stage["allocated"]


def test_a_run_that_goes_on_has_its_moments_from_the_start(tmp_path):
    twice = {"framework": "mindspeed-llm", "notes": "rank0:1.5GiB; rank0:2GiB; rank1:1.5GiB; rank1:2GiB"}
    run = run_of(tmp_path, **twice)
    [stage] = simulate(Scenario.of(scenario_of(run).data)).documents["memory"]
    assert memory_of(tmp_path, **twice) == stage["allocated"]


def test_memory_logged_in_gigabytes_is_decimal(tmp_path):
    assert run_of(tmp_path, peak_mem_gib="2").peak_memory == 2 * 2**30
    assert run_of(tmp_path, peak_mem_gib="2", notes="GB as logged").peak_memory == 2e9


@pytest.mark.thorough
def test_several_processes_predict_the_same(tmp_path):
    rows = read_runs(written(tmp_path, {}, {"id": "tests-gpt-0002", "peak_mem_gib": ""}))
    assert predict_runs(rows, jobs=2) == predict_runs(rows)


def test_activations_alone_may_have_been_measured(tmp_path):
    """In the unit of the row; of another metric the same number says nothing of memory."""
    columns = (*COLUMNS, "unit")
    said = {"metric": "activation_mem", "value": "2", "unit": "GB", "peak_mem_gib": ""}
    (row,) = read_runs(written(tmp_path, said, columns=columns))
    (found,) = predict_runs([row])
    memory = simulate(Scenario.of(scenario_of(row).data)).memory
    activations = memory["category"] == memory.index("category", "activations")
    assert found.figure is RunFigure.ACTIVATIONS
    assert found.measured == 2e9
    assert found.predicted == max(memory["bytes"][activations & (memory["class"] == 0)].cumsum())
    (unknown,) = predict_runs(read_runs(written(tmp_path, said | {"unit": "%"}, columns=columns)))
    assert unknown.reason


def test_activations_may_be_a_share_of_those_of_tensor_parallelism_alone(tmp_path):
    """Full recomputation keeps the input of a layer alone, of which sequence parallelism leaves a part."""
    said = {"metric": "activation_mem_pct_of_tp_baseline", "value": "20", "peak_mem_gib": ""}
    whole = {"sequence_parallel": "false", "recompute": "none"}
    rows = read_runs(
        written(tmp_path, said | whole, said | {"sequence_parallel": "true", "recompute": "full"})
    )
    same, less = predict_runs(rows)
    assert (same.figure, same.measured, same.predicted) == (RunFigure.ACTIVATION_SHARE, 0.2, 1.0)
    assert 0.02 < less.predicted < 0.3


def test_the_reports_tell_groups_and_reasons(tmp_path):
    found = predict_runs(read_runs(written(tmp_path, {}, {"precision": "int3", "id": "other-x-1"})))
    told = runs_text(found, 1)
    assert "2 of 4 figures of 2 runs predicted" in told and "tests-gpt" in told
    assert "the precision 'int3' is unknown" in told
    lines = list(csv.DictReader(io.StringIO(runs_csv(found))))
    assert [line["figure"] for line in lines] == ["step time", "peak memory"] * 2
    assert lines[0]["id"] == "tests-gpt-0001" and float(lines[0]["error"]) == pytest.approx(
        found[0].error, 1e-5
    )
    assert runs_markdown(found).count("\n") == 6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layers": "two"}, r"runs.csv:2:\d+: layers 'two' is not a whole number of at least one"),
        ({"value": "-1"}, r"runs.csv:2:\d+: value '-1' is not a number above zero"),
    ],
)
def test_numbers_that_are_none_are_refused(tmp_path, change, message):
    with pytest.raises(ScenarioError, match=message):
        read_runs(written(tmp_path, change))


def test_missing_columns_are_named(tmp_path):
    with pytest.raises(ScenarioError, match="missing columns: layers"):
        read_runs(written(tmp_path, columns=[column for column in COLUMNS if column != "layers"]))


def test_what_is_assumed_is_listed(tmp_path):
    found = predict_runs(read_runs(written(tmp_path, {"vocab": "", "recompute": ""})))
    told = runs_text(found)
    assert "Assumed" in told and "the vocabulary is GPT-2's" in told
    (line, _) = csv.DictReader(io.StringIO(runs_csv(found)))
    assert line["assumed"] == "; ".join(found[0].assumed)


def test_a_run_as_a_scenario_file(tmp_path):
    text = run_scenario_yaml(run_of(tmp_path, vocab="", source="a paper"))
    assert "# Source: a paper" in text and "# Assumed: the vocabulary is GPT-2's" in text
    path = tmp_path / "run.yaml"
    path.write_text(text)
    assert Scenario.load(path).spec.num_ranks == 8


def test_errors_are_put_together_by_what_is_asked(tmp_path):
    found = predict_runs(read_runs(written(tmp_path, {}, {**HALVES, "id": "tests-gpt-0002"})))
    assert {name for name, _ in run_errors_by_group(found, RunGrouping.PLAN)} == {
        "tensor",
        "pipeline + tensor",
        "all",
    }
    for by in RunGrouping:
        assert {by.of(row.row) for row in found} == {name for name, _ in run_errors_by_group(found, by)} - {
            "all"
        }
    assert {RunGrouping.SIZE.of(row.row) for row in found} == {"    8 to 63 devices"}


def test_whole_numbers_that_a_program_wrote_as_floats(tmp_path):
    counts = ("layers", "hidden", "seq_len", "num_devices", "data", "tensor", "zero_stage", "micro_batch")
    (plain, same) = read_runs(written(tmp_path, {}, {name: f"{ROW[name]}.0" for name in counts}))
    assert scenario_of(plain) == scenario_of(same)


def test_a_row_whose_process_dies_twice_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "simcluster.accuracy.runs.predict.parallel_map", lambda function, rows, jobs: [None, []]
    )
    found = predict_runs(read_runs(written(tmp_path, {}, {})), jobs=2)
    assert [each.figure for each in found] == [RunFigure.STEP, RunFigure.MEMORY]
    assert {each.reason for each in found} == {
        "the process that simulated it was killed, twice: perhaps this machine has not enough memory for it"
    }
