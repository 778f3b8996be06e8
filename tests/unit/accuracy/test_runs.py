"""Published training runs: what their columns become, and what is refused."""

from __future__ import annotations

import pytest

from simcluster.accuracy import holds_runs, memory_csv, memory_errors, memory_text, predict_memory, read_runs
from simcluster.accuracy.run_row import REQUIRED, RunRow
from simcluster.accuracy.run_scenario import Unsupported, scenario_of
from simcluster.errors import ScenarioError
from simcluster.scenario import Scenario
from simcluster.simulation import simulate

CELLS = {
    "id": "simumax-x-0001",
    "framework": "megatron-core",
    "model": "llama-tiny",
    "layers": "2",
    "hidden": "512",
    "heads": "8",
    "kv_heads": "4",
    "ffn": "1024",
    "vocab": "32000",
    "seq_len": "512",
    "hardware": "H100-80GB SXM",
    "num_devices": "8",
    "data": "4",
    "tensor": "2",
    "pipeline": "1",
    "sequence_parallel": "true",
    "zero_stage": "1",
    "micro_batch": "2",
    "global_batch": "64",
    "recompute": "none",
    "precision": "bf16",
    "peak_mem_gib": "1.5",
    "notes": "",
}


def row(**cells):
    return RunRow(1, cells.get("id", CELLS["id"]), CELLS | cells, 1.5 * 2**30)


def file_of(tmp_path, *rows, titles=tuple(CELLS)):
    path = tmp_path / "runs.csv"
    lines = [",".join(titles), *(",".join(each.get(title, "") for title in titles) for each in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_columns_become_a_plan():
    data = scenario_of(row())
    assert data["parallel"]["mesh"] == {"data": 4, "tensor": 2}
    assert data["parallel"]["recipe"] == "megatron_sp"
    assert data["parallel"]["optimizer_sharding"] == {"zero": 1}
    assert data["framework"] == "megatron-core"
    assert data["model"]["kv_heads"] == 4
    assert data["cluster"] == {"use": "dgx-h100", "hosts": 1}
    assert data["training"]["global_batch"] == 2 * 2 * 4


def test_fewer_micro_batches_hold_as_much():
    """What is predicted from twice as many micro-batches as stages is what all of them need."""
    short = scenario_of(row(pipeline="2", data="2", global_batch="128"))
    whole = short | {"training": short["training"] | {"global_batch": 128}}
    assert short["training"]["global_batch"] == 2 * 2 * 2 * 2
    peaks = [
        simulate(Scenario.of(data)).documents["summary"]["allocated_memory_bytes_max"]
        for data in (short, whole)
    ]
    assert peaks[0] == peaks[1]


@pytest.mark.parametrize(
    ("cells", "model"),
    [
        ({"notes": "flags: swiglu; more"}, {"activation": "swiglu"}),
        ({"notes": "flags: squared-relu"}, {"activation": "squared_relu"}),
        ({"notes": "flags: untie-embeddings-and-output-weights"}, {"tied": False}),
        ({"model": "gpt:a_rope_embeddings"}, {"positions": "rotary"}),
        ({}, {"max_positions": 512, "dropout": 0.1}),
    ],
)
def test_flags_change_the_model(cells, model):
    found = scenario_of(row(**{"framework": "megatron-lm", "model": "gpt:a"} | cells))["model"]
    assert found | model == found


def test_a_part_of_a_host():
    data = scenario_of(row(num_devices="2", data="1"))
    assert data["cluster"]["host"]["devices"] == 2


@pytest.mark.parametrize(
    ("told", "layers"), [("full", "all"), ("full (uniform, 1)", "all"), ("full (block, 2)", 2)]
)
def test_recomputation(told, layers):
    assert scenario_of(row(recompute=told))["parallel"]["recompute"] == {"layers": layers}


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ({"framework": "homemade"}, "nothing is known of runs of 'homemade'"),
        ({"hardware": "abacus"}, "no host of the catalog is known to be 'abacus'"),
        ({"context": "2"}, "context parallelism"),
        ({"virtual_pipeline": "3"}, "several chunks"),
        ({"schedule": "zb-1p"}, "schedule zb-1p"),
        ({"offload": "swap-optimizer"}, "offload"),
        ({"precision": "fp8 (current scaling)"}, "precision 'fp8"),
        ({"recompute": ""}, "recompute 'not stated'"),
        ({"recompute": "selective"}, "recompute 'selective'"),
        ({"vocab": ""}, "no vocab stated"),
        ({"layers": "two"}, "layers 'two' is no whole number"),
        ({"num_devices": "12"}, "12 devices on hosts of 8"),
        ({"notes": "lora-r=8"}, "low-rank adapters"),
        ({"expert": "3"}, "experts over more ranks"),
    ],
)
def test_what_is_not_simulated_says_why(cells, reason):
    with pytest.raises(Unsupported, match=reason.replace("(", r"\(")):
        scenario_of(row(**cells))


def test_tables_of_errors(tmp_path):
    other = CELLS | {"id": "other-1", "context": "2"}
    rows = read_runs(file_of(tmp_path, CELLS, other, titles=(*CELLS, "context")))
    found = predict_memory(rows)
    (good, bad) = found
    assert good.predicted > 0
    assert bad.reason == "context parallelism"
    assert set(memory_errors(found)) == {"simumax-x", "all"}
    assert memory_errors(found)["all"].median == abs(good.error)
    text = memory_text(found, 5)
    assert text.startswith("1 of 2 rows")
    assert "context parallelism" in text
    assert len(memory_csv(found).splitlines()) == 3


def test_wrong_files(tmp_path):
    path = file_of(tmp_path, CELLS | {"peak_mem_gib": "much"}, CELLS | {"peak_mem_gib": "-1"})
    assert holds_runs(path)
    with pytest.raises(ScenarioError) as error:
        read_runs(path)
    assert len(error.value.problems) == 2
    with pytest.raises(ScenarioError, match="missing columns: vocab"):
        read_runs(file_of(tmp_path, CELLS, titles=[name for name in CELLS if name != "vocab"]))
    with pytest.raises(ScenarioError, match="no row states"):
        read_runs(file_of(tmp_path, CELLS | {"peak_mem_gib": ""}))
    assert not holds_runs(file_of(tmp_path, titles=["id", "op"]))
    assert set(REQUIRED) <= set(CELLS)
