"""Slow devices: what they cost, whom they keep waiting, and what they leave alone."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from simcluster.cluster import DeviceSpeed
from simcluster.engine import Workload, run
from simcluster.errors import PlanError, TraceError
from simcluster.plan.schedules.one_f_one_b import OneFOneB
from simcluster.program import partition_ranks
from simcluster.report import tables as columns
from simcluster.report import write_perfetto
from simcluster.report.content.run_header import header_rows
from simcluster.scenario import Scenario
from simcluster.simulation import build_scenario, simulate, verify
from tests.support.pipelines import burning_program, quiet_cluster
from tests.support.scenarios import scenario

SLOW = {"device": 2, "compute": 0.5, "memory_bandwidth": 0.5}
LARGE = {"layers": 2, "hidden": 512, "heads": 8, "ffn": 2048, "vocab": 1024}


def totals(result):
    """Nanoseconds of kernels, and nanoseconds of waiting, by class."""
    count = len(result.documents["classes"])
    spans, waits = result.spans, result.waits
    length = (spans["end"] - spans["start"]).astype(float)
    kernels = spans.text("kind") == "compute"
    busy = np.bincount(spans["class"][kernels], weights=length[kernels], minlength=count)
    idle = np.bincount(waits["class"], weights=waits["end"] - waits["start"], minlength=count)
    return busy, idle


@pytest.mark.parametrize("factor", [0.25, 0.5, 0.9, 1.5])
def test_the_step_of_data_parallel_ranks_grows_by_what_the_slow_one_computes_longer(factor):
    """Its kernels take 1 / factor of their time; its peers wait for it, and nobody computes otherwise."""
    change = {"device": 2, "compute": factor, "memory_bandwidth": factor}
    plain = {"devices": 4, "model": LARGE, "recipe": "data"}
    before = simulate(scenario({"data": 4}, **plain))
    after = simulate(scenario({"data": 4}, **plain, changes=[change]))
    host_ns = round(before.documents["summary"]["host_s"] * 1e9)
    (busy,), (idle,) = totals(before)
    (peer, slow), (peer_idle, slow_idle) = totals(after)
    assert [each["ranks"] for each in after.documents["classes"]] == [3, 1]
    assert peer == busy
    kernels = len(before.spans)
    assert slow - host_ns == pytest.approx((busy - host_ns) / factor, abs=kernels)
    step = round(after.documents["summary"]["step_time_s"] * 1e9)
    assert peer + peer_idle == slow + slow_idle == step
    assert peer_idle - slow_idle == slow - peer
    if factor < 1:
        # What it computes longer hides at most all of the reduction that was exposed before.
        assert slow - busy - idle <= step - (busy + idle) <= slow - busy
    else:
        assert step == busy + idle


@pytest.mark.parametrize("stage", [0, 1, 2])
def test_a_slow_stage_is_a_stage_with_longer_kernels(stage):
    """A third of the speed and three times the work are the same pipeline, to the nanosecond."""
    table = OneFOneB().timetable(3, 5)
    times = [100, 80, 90]
    stretched = [each * (3 if index == stage else 1) for index, each in enumerate(times)]
    nominal = quiet_cluster(3)
    slow = replace(nominal, speeds={stage: DeviceSpeed(1 / 3)})
    results = []
    for program, cluster in (
        (burning_program(times, times, table), slow),
        (burning_program(stretched, stretched, table), nominal),
    ):
        results.append(run(Workload(program, cluster, partition_ranks(program, cluster))))
    assert results[0].end == results[1].end
    for mine, theirs in zip(results[0].classes, results[1].classes, strict=True):
        for one, other in zip(mine.starts, theirs.starts, strict=True):
            assert np.array_equal(one, other)


def test_only_what_the_slow_device_reaches_is_split_off():
    mesh = {"data": 4, "tensor": 4}
    assert len(build_scenario(scenario(mesh, devices=4, recipe="megatron", model=LARGE)).classes) == 1
    which = scenario(mesh, devices=4, recipe="megatron", model=LARGE, changes=[{"device": 5, "compute": 0.9}])
    found = {each["representative"]: each for each in simulate(which).documents["classes"]}
    assert {rank: each["ranks"] for rank, each in found.items()} == {0: 9, 1: 3, 4: 3, 5: 1}
    assert found[5]["changed"] == "its device: compute x 0.9"
    assert found[4]["changed"] == f"meets class {found[5]['class']} over tensor"
    assert found[1]["changed"] == f"meets class {found[5]['class']} over data"
    assert found[0]["changed"].startswith("meets class ")


def test_equally_slow_devices_stay_folded():
    changes = [{"host": 1, "compute": 0.9}]
    built = build_scenario(
        scenario({"data": 4, "tensor": 4}, devices=4, recipe="megatron", model=LARGE, changes=changes)
    )
    assert built.classes.sizes == (12, 4)
    everywhere = [{"devices": "all", "compute": 0.9}]
    assert len(build_scenario(scenario({"data": 4}, devices=4, changes=everywhere)).classes) == 1


def test_a_slow_device_times_the_same_program_again():
    """The plan is made for the devices as they should be, so are peak and assumptions."""
    mesh = {"pipeline": 2, "data": 2, "tensor": 2}
    plain, slow = (simulate(scenario(mesh, recipe="megatron", changes=each)) for each in ((), (SLOW,)))
    assert slow.documents["provenance"] == plain.documents["provenance"]
    before, after = plain.documents["summary"], slow.documents["summary"]
    assert after["assumptions"] == before["assumptions"]
    assert after["peak_memory_bytes_max"] == before["peak_memory_bytes_max"]
    assert after["step_time_s"] > before["step_time_s"]
    assert after["mfu"] * after["step_time_s"] == pytest.approx(before["mfu"] * before["step_time_s"])


def test_the_first_device_may_be_the_slow_one():
    """Nothing that asks for the nominal device gets the first one."""
    results = [
        simulate(scenario({"data": 4}, changes=[{"device": rank, "compute": 0.5}])).documents
        for rank in (0, 3)
    ]
    first, last = (each["summary"] for each in results)
    assert first["mfu"] == last["mfu"]
    assert first["step_time_s"] == last["step_time_s"]
    assert results[0]["provenance"] == results[1]["provenance"]


def test_the_seed_draws_the_speeds():
    law = {"normal": [1.0, 0.1]}
    jitter = [{"devices": "all", "compute": law, "memory_bandwidth": law}]

    def step(seed):
        which = scenario({"data": 4}, model=LARGE, changes=jitter, run={"seed": seed})
        return simulate(which).documents["summary"]["step_time_s"]

    assert step(1) == step(1)
    assert step(1) != step(2)


def test_the_cluster_line_says_it():
    def line(*changes):
        return dict(header_rows(simulate(scenario({"data": 4}, changes=changes)).documents))["cluster"]

    assert "changed" not in line()
    assert line(SLOW).endswith("; 1 device changed: compute x 0.5, memory bandwidth x 0.5")
    several = line({"device": 1, "compute": 0.9}, {"device": 2, "compute": 0.8})
    assert several.endswith("; 2 devices changed: compute x 0.8 to 0.9")


def test_values_know_no_speeds():
    which = scenario({"pipeline": 2, "data": 2})
    slow = scenario({"pipeline": 2, "data": 2}, changes=[SLOW])
    plain, found = verify(which), verify(slow)
    assert found.agrees
    assert found.comparisons == plain.comparisons
    assert found.changes == (*plain.changes, ("changed devices", "1", "0"))


def test_too_many_different_devices_are_refused_in_numbers(monkeypatch):
    for most in ("MOST_PASSES", "MOST_OF_MANY"):
        monkeypatch.setattr(f"simcluster.plan.diagnostics.size_limits.{most}", 31)
    jitter = [{"devices": "all", "compute": {"normal": [1.0, 0.1]}}]
    build_scenario(scenario({"data": 8}, micro_batches=1))
    build_scenario(scenario({"data": 8}, micro_batches=1, changes=[SLOW]))
    with pytest.raises(PlanError, match="8 different ranks of each stage = 32 passes") as caught:
        build_scenario(scenario({"data": 8}, micro_batches=1, changes=jitter))
    assert caught.value.problems[0].path == "cluster.changes"


def test_of_very_many_different_ranks_those_are_recorded_that_somebody_looks_at(monkeypatch, tmp_path):
    jitter = [{"devices": "all", "compute": {"normal": [1.0, 0.1]}}]
    mesh = {"pipeline": 2, "data": 8}
    whole = simulate(scenario(mesh, micro_batches=2, changes=jitter))
    monkeypatch.setattr("simcluster.simulation.recording.lazy_trace.MOST_EXPANDED", 100)
    found = simulate(scenario(mesh, micro_batches=2, changes=jitter))
    assert found.documents["summary"]["num_classes"] == 16
    for look in (lambda: len(found.spans), lambda: len(found.memory), lambda: found.save(tmp_path / "run")):
        with pytest.raises(TraceError, match="tables of 16 different ranks do not fit"):
            look()
    assert not found.storable
    assert whole.storable
    for table in (columns.spans_table, columns.transfers_table, columns.memory_table, columns.waits_table):
        ours, theirs = (table(each, [13, 2]).structured() for each in (found, whole))
        assert np.array_equal(ours, theirs)
    for name, which in (("ours", found), ("theirs", whole)):
        write_perfetto(which, tmp_path / name, [2, 13])
    ours, theirs = (json.loads((tmp_path / name).read_text()) for name in ("ours", "theirs"))
    assert ours["traceEvents"] == theirs["traceEvents"]


def test_errors_point_into_the_file(tmp_path):
    path = tmp_path / "slow.yaml"
    text = Path("scenarios/tiny-gpt-cpu.yaml").read_text()
    path.write_text(
        text.replace(
            "hosts: 4}", "hosts: 4, changes: [{device: 1, compute: 0.01}, {host: 0, compute: 0.01}]}"
        )
    )
    with pytest.raises(PlanError) as caught:
        simulate(Scenario.load(path))
    assert caught.value.problems[0].where.startswith(f"{path}:6:")
