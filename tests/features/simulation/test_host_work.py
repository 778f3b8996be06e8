"""Operators on the processors of hosts: what they take, what devices share there, and their values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster import units
from simcluster.cluster import load_host
from simcluster.errors import PlanError
from simcluster.model import MemoryPlace, TensorType
from simcluster.model.operators.optimizer import AdamW
from simcluster.report.terminal.layouts import layouts_text
from simcluster.scenario import Scenario
from simcluster.simulation import simulate
from simcluster.simulation.compose.build import build_scenario
from simcluster.simulation.verification.single_device_comparison import verify
from simcluster.simulation.views.operator_layouts import layouts_document
from simcluster.work import DType
from tests.support.covering import quick_at
from tests.support.folding import assert_folded_is_unfolded
from tests.support.hosts import THREADS, figure, host
from tests.support.implementations import assert_all_agree
from tests.support.scenarios import TINY, TINY_GPT

ROW, RATE = 100e-9, 1e9
UPDATE_ROW, UPDATE_RATE = 1e-6, 0.5e9
LOOKUP, UPDATE = "embedding.deep.tokens", "embedding.deep.weight.update"
GROUPS = [{"match": "embedding.*.weight", "kind": "lazy_adam"}]
BY_ROWS = {"match": "embedding.*.tokens", "split": {"vocab": "data"}}
IDS, COLUMNS, TABLE = 64 * 39, 80, 1024


def written(patterns, devices=2, *, mesh=None, model=None, training=None, run=None, where=None, **parallel):
    mesh = mesh or {"data": devices}
    ranks = int(np.prod(list(mesh.values())))
    ways = mesh.get("data", 1)
    return {
        "simcluster": 1,
        "name": "host",
        "cluster": {"host": where or host(devices), "hosts": ranks // devices},
        "model": model or {"use": "wide-deep", "vocab": TABLE, "tables": "fp32"},
        "training": {
            "global_batch": 64 * ways,
            "micro_batch": 64,
            "seq_len": 1,
            "precision": "fp16",
            "optimizer": {"kind": "adam", "groups": GROUPS},
            **(training or {}),
        },
        "parallel": {"mesh": mesh, "host": patterns, **parallel},
        "run": run or {"steps": 1},
    }


def lookups(patterns, devices=2, **more):
    return Scenario.of(written(patterns, devices, **more))


def transformer(patterns, mesh, micro_batches=3, model=TINY, training=None, devices=2, **more):
    batch = {"global_batch": micro_batches * mesh.get("data", 1), "micro_batch": 1, "seq_len": 8}
    training = {**batch, "optimizer": "adamw", "precision": "fp16", **(training or {})}
    return Scenario.of(written(patterns, devices, mesh=mesh, model=model, training=training, **more))


def spans(which, name):
    """Nanoseconds of an operator's spans, by class."""
    run = simulate(which)
    mine = run.spans.text("operator") == f"embedding.{name}"
    return (run.spans["end"] - run.spans["start"])[mine]


def alone(rows, row, moved, rate, threads=THREADS):
    return (rows * row + moved / rate) / threads * 1e9


LOOKED_UP = 2 * IDS * COLUMNS * 4 + IDS * 8


def test_an_operator_alone_takes_its_rows_and_then_its_bytes_on_as_many_cores_as_it_may_use():
    (found,) = spans(lookups([LOOKUP], 1), "deep.tokens")
    assert found == pytest.approx(alone(IDS, ROW, LOOKED_UP, RATE), abs=2)


def test_an_update_by_rows_alone():
    (found,) = spans(lookups([LOOKUP, UPDATE], 1), "deep.weight.update")
    touched = min(IDS, TABLE) * COLUMNS * 4
    moved = IDS * 8 + IDS * COLUMNS * 4 + 3 * 2 * touched
    assert found == pytest.approx(alone(IDS, UPDATE_ROW, moved, UPDATE_RATE), abs=2)


@pytest.mark.parametrize("devices", quick_at([2, 4], 0))
def test_devices_share_the_cores_of_their_host(devices):
    few = lookups([LOOKUP], devices, where=host(devices, cores=THREADS))
    many = lookups([LOOKUP], devices, where=host(devices, cores=THREADS * devices))
    (crowded,), (free,) = (set(spans(which, "deep.tokens").tolist()) for which in (few, many))
    assert free == pytest.approx(alone(IDS, ROW, LOOKED_UP, RATE), abs=2)
    assert crowded == pytest.approx(devices * free, abs=4)


def test_devices_share_the_memory_of_their_host():
    # Four cores ask for 4 GB/s; two devices get 3 GB/s together, and their rows take no memory.
    slow = lookups([LOOKUP], 2, where=host(2, memory="3 GB/s"))
    (found,) = set(spans(slow, "deep.tokens").tolist())
    assert found == pytest.approx((IDS * ROW / THREADS + LOOKED_UP / 1.5e9) * 1e9, abs=4)


def test_a_kernel_that_moves_more_than_a_byte_per_nanosecond_loads_the_memory_most():
    fast = host(2, memory="20 GB/s", gather_scatter=figure({"row": "0 ns", "bandwidth": "5 GB/s"}))
    (found,) = set(spans(lookups([LOOKUP], 2, where=fast), "deep.tokens").tolist())
    assert found == pytest.approx(LOOKED_UP / 10e9 * 1e9, abs=4)


def test_tables_and_states_lie_on_the_host_and_rows_and_gradients_cross():
    which = lookups([LOOKUP, UPDATE], 2)
    built = build_scenario(which)
    residents = built.program.parts[0].residents
    on_host = {each.name for each in residents if each.place is MemoryPlace.HOST}
    table = "embedding.deep.weight"
    assert on_host == {f"{table}{end}" for end in ("", ".moment1", ".moment2", ".grad", ".grad.ids")}
    summary = simulate(which).documents["summary"]
    (beside,) = summary["host_memory_bytes"]
    assert beside["breakdown"]["parameters"] == 2 * TABLE * COLUMNS * 4
    assert beside["breakdown"]["optimizer_states"] == 2 * 2 * TABLE * COLUMNS * 4
    bare = simulate(lookups([], 2)).documents["summary"]
    before, after = (each["peak_memory_bytes"][0]["breakdown"] for each in (bare, summary))
    assert before["optimizer_states"] - after["optimizer_states"] == 2 * TABLE * COLUMNS * 4
    run = simulate(which)
    copies = {
        str(name): int(size)
        for name, size in zip(run.spans.text("operator"), run.spans["bytes"], strict=True)
        if str(name).endswith("copy")
    }
    rows = IDS * COLUMNS * 4
    assert copies["embedding.deep.tokens.out on device copy"] == rows
    # The gradients of both devices' rows come back to either.
    crossing = [size for name, size in copies.items() if "deep.values." in name and "on host" in name]
    assert crossing == [2 * rows]


def test_the_step_is_cut_without_remainder_and_host_work_is_host_time():
    summary = simulate(lookups([LOOKUP, UPDATE], 2)).documents["summary"]
    parts = [summary[f"{name}_s"] for name in ("compute", "host", "offload_wait", "pipeline_wait", "idle")]
    total = sum(parts) + summary["slowed_s"] + summary["input_wait_s"]
    total += sum(summary["exposed_communication_s"].values())
    assert total == pytest.approx(summary["step_time_s"], rel=1e-9)
    assert summary["host_s"] > 0.5 * summary["step_time_s"]


@pytest.mark.parametrize(
    "which",
    quick_at(
        [
            lookups([LOOKUP], 2),
            lookups([UPDATE], 2),
            lookups(["embedding.*.tokens", "embedding.*.values"], 2),
            lookups(["*.update"], 2),
            lookups(
                [LOOKUP, UPDATE], 2, strategies=[{"match": "embedding.*.tokens", "split": {"vocab": "data"}}]
            ),
            lookups([LOOKUP, UPDATE], 2, mesh={"pipeline": 2, "data": 2}),
        ],
        4,
        5,
    ),
    ids=["lookup", "update", "lookup and product", "all updates", "rows", "pipeline"],
)
def test_values_of_tables_on_the_host_are_those_of_one_device(which):
    found = verify(which)
    assert found.agrees, found.first_difference or found.fault


@pytest.mark.parametrize(
    "which",
    quick_at(
        [
            transformer(["*.update"], {"data": 2}),
            transformer(["*.update"], {"data": 4}, optimizer_sharding={"zero": 1}),
            transformer(["*.update"], {"data": 2}, optimizer_sharding={"zero": 2}),
            transformer(["*.update"], {"data": 2}, optimizer_sharding={"zero": 3}),
            transformer(["*.update"], {"data": 2}, optimizer_sharding="fsdp"),
            transformer(["layers.*.update"], {"pipeline": 2, "data": 2}, optimizer_sharding={"zero": 1}),
            transformer(["*.update"], {"tensor": 2}, recompute={"layers": "all"}),
            transformer(["*.update"], {"data": 2}, training={"optimizer": {"kind": "adamw", "clip": 0.1}}),
            transformer(
                ["*.update"], {"data": 2}, training={"precision": {"compute": "fp16", "master": "none"}}
            ),
            transformer(["embedding.tokens"], {"data": 2}, model=TINY_GPT),
            transformer(["*.update", "embedding.tokens"], {"pipeline": 2, "data": 2}, model=TINY_GPT),
            transformer(["layers.1.*.update"], {"data": 2}),
        ],
        10,
    ),
    ids=[
        "zero0",
        "zero1",
        "zero2",
        "zero3",
        "fsdp",
        "pipeline",
        "recompute",
        "clip",
        "no master",
        "lookup of a tied table",
        "both",
        "one layer",
    ],
)
def test_values_of_optimizers_on_the_host_are_those_of_one_device(which):
    found = verify(which)
    assert found.agrees, found.first_difference or found.fault


def test_the_whole_optimizer_on_the_host_leaves_weights_and_gradients_on_the_device():
    bare, moved = (
        simulate(transformer(patterns, {"data": 2})).documents["summary"] for patterns in ([], ["*.update"])
    )
    before, after = (each["peak_memory_bytes"][0]["breakdown"] for each in (bare, moved))
    assert before["optimizer_states"] > 0 and after["optimizer_states"] == 0
    assert after["parameters"] == before["parameters"] and after["gradients"] == before["gradients"]
    (beside,) = moved["host_memory_bytes"]
    assert beside["breakdown"]["optimizer_states"] == 2 * before["optimizer_states"]


def test_what_the_host_reads_of_the_input_is_not_copied_to_the_device():
    which = written([LOOKUP, "embedding.wide.tokens"], 2, mesh={"data": 2})
    fed = Scenario.of(which | {"data": {"strategy": "data_parallel"}})
    assert verify(fed).agrees
    run = simulate(fed)
    copies = run.spans.text("operator") == "input.copy"
    (size,) = set(run.spans["bytes"][copies].tolist())
    targets, values = 64 * 8, 64 * 39 * 4
    assert size == targets + values


def test_layouts_say_what_runs_on_the_host_and_what_is_copied():
    text = layouts_text(layouts_document(build_scenario(lookups([LOOKUP], 2))))
    assert "deep.tokens  embedding  batch: data  (default)  on the host" in text
    rows = IDS * COLUMNS * 4
    assert f"deep.tokens.out on device copy  host to device  {units.volume(rows)} in" in text


@pytest.mark.parametrize(
    "which",
    quick_at(
        [
            lookups([LOOKUP, UPDATE], 4, where=host(4, cores=6)),
            lookups([LOOKUP], 2, mesh={"pipeline": 2, "data": 2}),
            transformer(["*.update"], {"data": 4}, optimizer_sharding={"zero": 1}),
        ],
        0,
    ),
    ids=["contended", "pipeline", "zero1"],
)
def test_folded_is_unfolded(which):
    assert_folded_is_unfolded(which)


@settings(max_examples=3)
@given(
    cores=st.sampled_from([2, 6, 64]),
    memory=st.sampled_from(["2 GB/s", "1000 GB/s"]),
    update=st.booleans(),
    steps=st.integers(1, 2),
)
def test_it_does_not_matter_how_it_is_timed(cores, memory, update, steps):
    patterns = [LOOKUP, UPDATE] if update else [LOOKUP]
    where = host(4, cores=cores, memory=memory)
    which = lookups(patterns, 4, where=where, run={"steps": steps})
    assert_all_agree(build_scenario(which, unfold=True))


CLIPPED = {"training": {"optimizer": {"kind": "adamw", "clip": 0.1}}}


@pytest.mark.parametrize(
    ("offload", "more"),
    quick_at(
        [
            ({"gradients": "host"}, {"optimizer_sharding": {"zero": 2}}),
            ({"gradients": "host"}, {"optimizer_sharding": {"zero": 2}, **CLIPPED}),
            ({"parameters": "host"}, {}),
            ({"activations": "host"}, {"optimizer_sharding": {"zero": 1}}),
            ({"optimizer_states": "disk"}, CLIPPED),
            (
                {"parameters": "disk", "gradients": "host", "optimizer_states": "disk"},
                {"optimizer_sharding": {"zero": 3}, "recompute": {"layers": "all"}},
            ),
        ],
        1,
        5,
    ),
    ids=["gradients", "clipped gradients", "parameters", "activations", "states on disks", "all"],
)
def test_values_with_what_is_offloaded_are_those_of_one_device(offload, more):
    which = transformer(["*.update"], {"data": 2}, offload=offload, **more)
    found = verify(which)
    assert found.agrees, found.first_difference or found.fault


def test_what_lies_on_the_host_takes_no_way_over_the_device():
    offload = {"gradients": "host", "parameters": "host"}
    sharded = {"optimizer_sharding": {"zero": 3}}
    which = transformer(["*.update"], {"data": 2}, offload=offload, **sharded)
    codes = [code for code in build_scenario(which).program.codes if code.phase == "update"]
    assert codes
    assert {each.operation for code in codes for each in code.instructions} == {"work of the host"}


@pytest.mark.parametrize(("begins", "ready"), [("as_ready", True), ("behind_backward", False)])
def test_a_profile_says_whether_updates_on_the_host_wait_for_the_whole_backward(begins, ready):
    data = written(["*.update"], 1, mesh={"data": 1}, model=TINY, offload={"gradients": "host"})
    small = {"global_batch": 1, "micro_batch": 1, "seq_len": 8, "optimizer": "adamw", "precision": "fp16"}
    framework = {"use": "ideal", "host_updates": begins}
    spans = simulate(Scenario.of(data | {"training": small, "framework": framework})).spans
    updates = np.char.endswith(spans.text("operator").astype(str), ".update")
    backward = (spans.text("stream") == "compute") & np.char.startswith(spans.text("action").astype(str), "B")
    assert updates.any() and backward.any()
    assert bool((spans["start"][updates] < spans["end"][backward].max()).any()) is ready


def test_patterns_that_fit_nothing_are_refused_with_the_nearest_name():
    with pytest.raises(PlanError, match=r"'embedding\.deep\.token' matches no operator") as caught:
        build_scenario(lookups(["embedding.deep.token"]))
    (problem,) = caught.value.problems
    assert problem.path == "parallel.host.0" and "embedding.deep.tokens" in (problem.hint or "")


def test_kernels_that_a_host_has_no_figures_for_are_refused():
    with pytest.raises(PlanError, match=r"no figures for a gemm \(processors\.kernels\)"):
        build_scenario(transformer(["layers.0.mlp.*"], {"data": 2}))


@pytest.mark.parametrize("name", ["dgx-1v", "dgx-2", "dgx-a100", "dgx-h100"])
def test_hosts_update_dense_parameters_as_fast_as_their_source_says(name):
    """1e9 parameters a second and socket: 16-bit gradient and weights, fp32 master copy and two states."""
    known = load_host(name)
    weights, gradient = TensorType((10**6,), DType.FP32), TensorType((10**6,), DType.FP16)
    update = AdamW(cast=DType.FP16)
    inputs = [weights, gradient, weights, weights]
    (work,) = update.work(inputs, update.infer(inputs))
    effort = known.processing.effort(work)
    seconds = effort.num_bytes * effort.per_byte * 1e-9 / min(known.cores, known.processing.threads)
    assert seconds == pytest.approx(1e-3, rel=0.01)


def test_devices_that_are_their_own_host_have_none_beside():
    where = {"use": "cpu-server", "devices": 2, "network": {"nics": 2}}
    with pytest.raises(PlanError, match="the host has none besides its devices"):
        build_scenario(lookups([LOOKUP], 2, where=where, training={"precision": "fp32"}))
