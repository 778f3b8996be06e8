"""Kernels beside communication in whole runs: folded as unfolded, cut without remainder, values untouched."""

from __future__ import annotations

import numpy as np
import pytest

from simcluster.analysis import instruction_times
from simcluster.simulation import simulate
from simcluster.simulation.compose.build import build_scenario
from simcluster.simulation.run_scenario import run_alone
from simcluster.simulation.verification.single_device_comparison import verify
from tests.support.covering import quick_at
from tests.support.folding import assert_folded_is_unfolded
from tests.support.scenarios import scenario

GPU = "dgx-h100"
FSDP = {"optimizer_sharding": {"fsdp": {"reshard_after_forward": True}}}
MODEL = {"layers": 4, "hidden": 1024, "heads": 8, "kv_heads": 4, "ffn": 4096, "vocab": 1000}
PLANS = [
    {"mesh": {"data": 4}, "devices": 4, **FSDP},
    {"mesh": {"data": 4}, "devices": 2, **FSDP},
    {"mesh": {"pipeline": 2, "data": 2, "tensor": 2}, "devices": 4, "optimizer_sharding": {"zero": 1}},
    {
        "mesh": {"data": 4, "tensor": 2},
        "devices": 4,
        "changes": [{"device": 3, "compute": 0.7}],
        **FSDP,
    },
]


def on_gpus(mesh, **rest):
    return scenario(mesh, host=GPU, model=MODEL, training={"seq_len": 256}, **rest)


@pytest.mark.parametrize("plan", quick_at(PLANS, 2))
def test_folded_is_unfolded(plan):
    which = on_gpus(**plan)
    assert simulate(which).documents["summary"]["slowed_s"] > 0
    assert_folded_is_unfolded(which)


@pytest.mark.parametrize("plan", quick_at(PLANS, 2))
@pytest.mark.parametrize("steps", quick_at([1, 2], 1))
def test_kernels_never_overlap_and_their_step_is_cut_without_remainder(plan, steps):
    which = on_gpus(**plan, run={"steps": steps})
    built, result = build_scenario(which), simulate(which)
    timing = run_alone(built)
    summary = result.documents["summary"]
    kernels = result.spans["kind"] == result.spans.index("kind", "compute")
    extra = []
    for index, each in enumerate(timing.classes):
        mine = kernels & (result.spans["class"] == index)
        starts, ends = result.spans["start"][mine], result.spans["end"][mine]
        assert (starts[1:] >= ends[:-1]).all()
        gaps = result.waits.where(result.waits["class"] == index)
        assert (ends - starts).sum() + (gaps["end"] - gaps["start"]).sum() == timing.end
        priced = sum(
            len(executions) * int(each.durations(code)[each.part.codes[code].stream_of == stream].sum())
            for code, executions in each.part.by_code().items()
            for stream, name in enumerate(each.part.codes[code].streams)
            if name == "compute"
        )
        extra.append(int((ends - starts).sum()) - priced)
    assert round(summary["slowed_s_max"] * steps * 1e9) == max(extra) > 0
    parts = ("compute_s", "slowed_s", "host_s", "pipeline_wait_s", "idle_s")
    total = sum(summary[name] for name in parts) + sum(summary["exposed_communication_s"].values())
    assert total == pytest.approx(summary["step_time_s"], rel=1e-12)


def test_without_figures_nothing_is_slowed():
    which = on_gpus(**PLANS[0])
    bare = scenario(PLANS[0]["mesh"], host="cpu-server", devices=4, **FSDP)
    assert simulate(bare).documents["summary"]["slowed_s"] == 0
    timings = run_alone(build_scenario(bare)).classes
    assert all(not len(each.stretched) for each in timings)
    assert any(len(each.stretched) for each in run_alone(build_scenario(which)).classes)


@pytest.mark.parametrize("plan", quick_at(PLANS, 0, 3))
def test_a_kernel_is_slowed_exactly_if_communication_ran_beside_it(plan):
    for each in run_alone(build_scenario(on_gpus(**plan))).classes:
        moves = [(each.starts[number], each.ends[number]) for number, _, _ in each.part.communication()]
        begun, over = (np.concatenate(column) for column in zip(*moves, strict=True))
        for code, found in instruction_times(each).items():
            known, priced = each.part.codes[code], each.group.group.codes[code]
            durations = each.durations(code)
            kernels = known.stream_of == known.streams.index("compute") if "compute" in known.streams else []
            starts, ends = found.starts[:, kernels].ravel(), found.ends[:, kernels].ravel()
            beside = ((begun[None, :] < ends[:, None]) & (over[None, :] > starts[:, None])).any(axis=1)
            price = np.broadcast_to(durations[kernels], found.starts[:, kernels].shape).ravel()
            units = durations - priced.host[:, 0] - priced.memory[:, 0]
            computing = np.broadcast_to(units[kernels] > 0, found.starts[:, kernels].shape).ravel()
            slowed = ends - starts > price
            assert not slowed[~beside].any() and (ends - starts >= price).all()
            # Units are always held; a few bytes take no millionth of the memory bandwidth.
            whole = ((begun[None, :] <= starts[:, None]) & (over[None, :] >= ends[:, None])).any(axis=1)
            assert slowed[whole & computing].all()


def test_stretched_kernels_keep_their_order_and_fill_their_entry():
    timing = run_alone(build_scenario(on_gpus(**PLANS[0]))).classes[0]
    table = timing.stretched
    assert len(table) > 100 and (np.diff(table["entry"]) >= 0).all()
    same = np.diff(table["entry"]) == 0
    assert (table["start"][1:][same] == table["end"][:-1][same]).all()
    assert (table["end"] > table["start"]).all()


def test_values_do_not_care():
    assert verify(scenario({"data": 2, "tensor": 2}, host=GPU, devices=4, **FSDP)).agrees


@pytest.mark.parametrize("plan", quick_at([*PLANS, {"mesh": {"data": 1, "pipeline": 2}}], 0, 4))
def test_the_first_kernel_beside_communication_is_the_first_that_is_slowed(plan):
    for each in run_alone(build_scenario(on_gpus(**plan))).classes:
        names = [stream.name for stream in each.part.streams]
        kernels = names.index("compute")
        moves = [number for number in range(len(names)) if number != kernels]
        starts, ends = (np.concatenate([of[number] for number in moves]) for of in (each.starts, each.ends))
        met = [
            entry
            for entry, (start, end) in enumerate(zip(each.starts[kernels], each.ends[kernels], strict=True))
            if end > start and ((starts < end) & (start < ends) & (starts < ends)).any()
        ]
        assert each.stretched["entry"][:1].tolist() == met[:1]
