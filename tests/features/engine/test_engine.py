from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from simcluster.engine import Progress, Workload, run
from simcluster.errors import SimulationError
from simcluster.plan.schedules.one_f_one_b import OneFOneB
from simcluster.program import Executions, InstructionKind, partition_ranks
from simcluster.simulation import simulate
from simcluster.simulation.compose.build import build_scenario
from tests.support.pipelines import burning_program, quiet_cluster
from tests.support.scenarios import TINY_GPT, scenario

PLANS = [
    {"mesh": {"data": 2}},
    {
        "mesh": {"pipeline": 2, "data": 2, "tensor": 2},
        "recipe": "megatron_sp",
        "optimizer_sharding": {"zero": 1},
    },
    {
        "mesh": {"pipeline": 4, "tensor": 2},
        "recipe": "megatron",
        "schedule": {"kind": "gpipe", "p2p": "blocking"},
    },
    {"mesh": {"pipeline": 3, "data": 2}, "model": TINY_GPT, "recompute": {"layers": "all"}},
]


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("steps", [1, 2])
def test_the_step_is_cut_without_remainder(plan, steps):
    result = simulate(scenario(**plan, run={"steps": steps}))
    end = round(result.documents["summary"]["step_time_s"] * steps * 1e9)
    kernels = result.spans["kind"] == result.spans.index("kind", "compute")
    for index in range(result.documents["summary"]["num_classes"]):
        mine = kernels & (result.spans["class"] == index)
        busy = (result.spans["end"] - result.spans["start"])[mine].sum()
        gaps = result.waits.where(result.waits["class"] == index)
        assert busy + (gaps["end"] - gaps["start"]).sum() == end


@pytest.mark.parametrize("plan", PLANS)
def test_summary_parts_sum_to_the_step(plan):
    summary = simulate(scenario(**plan)).documents["summary"]
    parts = ("compute_s", "slowed_s", "host_s", "pipeline_wait_s", "offload_wait_s", "input_wait_s", "idle_s")
    total = sum(summary[name] for name in parts) + sum(summary["exposed_communication_s"].values())
    assert total == pytest.approx(summary["step_time_s"], rel=1e-12)


@pytest.mark.parametrize("plan", PLANS)
def test_memory_returns_to_what_is_resident(plan):
    result = simulate(scenario(**plan, run={"steps": 2}))
    for index in range(result.documents["summary"]["num_classes"]):
        rows = result.memory.where(result.memory["class"] == index)
        resident = rows["bytes"][rows["micro_batch"] == -1]
        level = np.cumsum(rows["bytes"])
        assert (level > 0).all()
        static = rows["bytes"][(rows["time"] == 0) & (rows["micro_batch"] == -1)].sum()
        assert level[-1] == static
        assert resident[rows["time"][rows["micro_batch"] == -1] > 0].sum() == 0


@pytest.mark.parametrize("plan", PLANS)
def test_entries_of_a_stream_never_overlap(plan):
    result = simulate(scenario(**plan))
    spans = result.spans
    for index in range(result.documents["summary"]["num_classes"]):
        for stream in range(len(spans.names["stream"])):
            mine = spans.where((spans["class"] == index) & (spans["stream"] == stream))
            order = np.argsort(mine["start"], kind="stable")
            assert (mine["end"][order][:-1] <= mine["start"][order][1:]).all()
            assert (mine["end"] > mine["start"]).all()
            assert (mine["arrival"] <= mine["start"]).all()


def test_nothing_starts_before_what_it_reads_is_there():
    """Within every execution, every instruction starts after those it depends on have ended."""
    which = scenario(**PLANS[1])
    built, result = build_scenario(which), simulate(which)
    spans = result.spans
    for index in range(len(built.classes)):
        mine = spans.where(spans["class"] == index)
        ends = {}
        starts = {}
        for code, execution, number, start, end in zip(
            *(mine[c].tolist() for c in ("code", "execution", "instruction", "start", "end")), strict=True
        ):
            starts[code, execution, number], ends[code, execution, number] = start, end
        for (code, execution, number), start in starts.items():
            for other in built.program.codes[code].instructions[number].after:
                assert ends[code, execution, other] <= start


def test_members_of_a_group_start_and_end_together():
    which = scenario(**PLANS[1])
    result = simulate(which, unfold=True)
    spans = result.spans
    mesh = build_scenario(which).plan.mesh
    gathers = spans.text("stream") == "tensor"
    for members in mesh.groups(("tensor",)):
        times = [
            list(
                zip(
                    *(spans.where(gathers & (spans["class"] == rank))[c].tolist() for c in ("start", "end")),
                    strict=True,
                )
            )
            for rank in members
        ]
        assert times[0]
        assert all(each == times[0] for each in times)


def test_a_deadlock_names_who_waits_for_whom():
    """Two stages whose transfers are issued in different orders."""
    program = burning_program([10, 10], [20, 20], OneFOneB().timetable(2, 2))
    stage = program.parts[1]
    receives = [
        index
        for index, execution in enumerate(stage.executions)
        if program.codes[execution.code].instructions[0].action is InstructionKind.RECEIVE
    ]
    executions = [each for index, each in enumerate(stage.executions) if index != receives[-1]]
    broken = replace(program, parts=(program.parts[0], replace(stage, columns=Executions.of(executions))))
    cluster = quiet_cluster(2)
    with pytest.raises(SimulationError, match="deadlock") as caught:
        run(Workload(broken, cluster, partition_ranks(broken, cluster)))
    text = str(caught.value)
    assert (
        "rank 0, send_next: stage0:out.send activation (F1) waits for the other members of its group" in text
    )


def test_progress_can_be_watched():
    progress = Progress()
    program = burning_program([10, 10], [20, 20], OneFOneB().timetable(2, 2))
    cluster = quiet_cluster(2)
    timing = run(Workload(program, cluster, partition_ranks(program, cluster)), progress=progress)
    assert progress.done == progress.total == timing.num_events
    assert progress.now == pytest.approx(timing.end * 1e-9)


def test_the_same_scenario_gives_the_same_bytes():
    first, second = (simulate(scenario(**PLANS[1])) for _ in range(2))
    for table in ("spans", "memory", "waits", "transfers"):
        ours, theirs = getattr(first, table), getattr(second, table)
        assert all(ours[column].tobytes() == theirs[column].tobytes() for column in ours.columns)
        assert ours.names == theirs.names
    one, two = dict(first.documents), dict(second.documents)
    for documents in (one, two):
        documents["summary"] = {k: v for k, v in documents["summary"].items() if k != "wall_s"}
    assert one == two
