"""The critical path: it fills the run without a gap, and slack is what a delay may take."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.critical_path import critical_path_document
from simcluster.critical_path import path_limit as limit_module
from simcluster.critical_path import stage_slack as slack_module
from simcluster.critical_path.critical_entries import CriticalEntries, PathCause
from simcluster.critical_path.entry_graph import EntryGraph
from simcluster.critical_path.path_parts import PartKind, PathParts
from simcluster.critical_path.slack import entry_slacks
from simcluster.engine import Implementation, Workload, run, run_together
from simcluster.engine.reference.run import _Run
from simcluster.errors import TraceError
from simcluster.plan.schedules.gpipe import GPipe
from simcluster.plan.schedules.one_f_one_b import OneFOneB
from simcluster.program import PlacedProgram, partition_ranks
from tests.support.implementations import many_from
from tests.support.pipelines import burning_program, quiet_cluster
from tests.support.random_runs import random_workload

F, B = 1_000_000, 2_000_000


def pipeline(forward, backward, micro_batches=8, schedule=None, **more):
    timetable = (schedule or OneFOneB()).timetable(len(forward), micro_batches)
    program = burning_program(forward, backward, timetable)
    cluster = quiet_cluster(len(forward))
    classes = partition_ranks(program, cluster)
    timing = run(Workload(program, cluster, classes, **more), implementation=Implementation.REFERENCE)
    return PlacedProgram(program, classes, cluster, len(forward)), timing


def graph_of(placed, timing):
    return EntryGraph.of(placed.program, placed.classes, timing)


def assert_exact(graph, end):
    """The path fills the run, its parts sum to it, nothing of it has slack, and no slack is negative."""
    path, slack = CriticalEntries.of(graph), entry_slacks(graph)
    starts, ends = graph.starts[path.entries], graph.ends[path.entries]
    assert starts[0] == 0
    assert ends[-1] == end
    assert np.array_equal(starts[1:], ends[:-1])
    assert path.causes[0] == PathCause.BEGIN
    assert (path.causes[1:] != PathCause.BEGIN).all()
    by_stream = path.causes[1:] == PathCause.STREAM
    assert np.array_equal(graph.previous[path.entries[1:]] == path.entries[:-1], by_stream)
    parts = PathParts.of(graph, path)
    assert parts.spent.sum() == end
    assert (parts.spent > 0).all()
    spent = np.bincount(parts.position, parts.spent, len(path.entries))
    assert np.array_equal(spent, ends - starts)
    assert (slack >= 0).all()
    assert (slack[path.entries] == 0).all()
    return path, parts, slack


@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 10**9]))
@settings(max_examples=12, deadline=None)
def test_path_of_random_programs_is_exact(seed, many):
    workload = random_workload(seed)
    with many_from(many):
        (timing,) = run_together([workload], None, Implementation.REFERENCE)
    assert_exact(EntryGraph.of(workload.program, workload.classes, timing), timing.end)


@pytest.mark.parametrize("schedule", [GPipe(), OneFOneB()])
@pytest.mark.parametrize(("stages", "micro_batches"), [(1, 3), (2, 4), (4, 8), (8, 3)])
def test_kernels_of_equal_stages(schedule, stages, micro_batches):
    """(m + p - 1)(f + b) of kernels, whatever else is there are transfers."""
    placed, timing = pipeline([F] * stages, [B] * stages, micro_batches, schedule)
    _, parts, _ = assert_exact(graph_of(placed, timing), timing.end)
    kernels = parts.spent[parts.kind == PartKind.ARITHMETIC].sum()
    assert kernels == (micro_batches + stages - 1) * (F + B)


def test_the_slow_stage_makes_the_step():
    """The makespan 55 of the golden row: 2 until the slow stage has work, on it all but the forward of
    micro-batch 1, which it does while it waits 3 for the last stage, and 4 at the end.
    """
    placed, timing = pipeline([F, F, 2 * F, F], [B, B, 2 * B, B])
    document = critical_path_document(placed, timing, 1)
    stages = {entry["stage"]: entry["seconds"] * 1e9 for entry in document["stages"]}
    expected = {0: F + B, 1: F + B, 2: 8 * 2 * (F + B) - 2 * F, 3: F + B}
    assert stages == pytest.approx(expected, rel=1e-5)
    slow, fast = (document["stages"][stage]["slack"][0] for stage in (2, 1))
    assert slow["critical_s"] == pytest.approx(slow["seconds"] - 2 * F * 1e-9, rel=1e-9)
    assert fast["critical_s"] < 0.2 * fast["seconds"]
    assert fast["median_slack_s"] > 0


def test_document_sums_and_is_per_step():
    placed, once = pipeline([F, 2 * F, F], [B, B, 2 * B])
    _, thrice = pipeline([F, 2 * F, F], [B, B, 2 * B], steps=3)
    for timing, steps in ((once, 1), (thrice, 3)):
        document = critical_path_document(placed, timing, steps)
        step = timing.end * 1e-9 / steps
        assert document["step_time_s"] == pytest.approx(step, rel=1e-12)
        for key in ("kinds", "stages"):
            assert sum(entry["seconds"] for entry in document[key]) == pytest.approx(step, rel=1e-12)
        spans = document["spans"]
        assert spans["start_ns"][0] == 0
        assert spans["end_ns"][-1] == timing.end
        assert spans["start_ns"][1:] == spans["end_ns"][:-1]


@given(st.data())
@settings(max_examples=15, deadline=None)
def test_a_delay_beyond_the_slack_makes_the_run_longer(data):
    """One kernel that takes longer by d makes the run longer by d less its slack."""
    times = st.lists(st.integers(1_000, 50_000), min_size=3, max_size=3)
    schedule = data.draw(st.sampled_from([GPipe(), OneFOneB()]))
    shape = data.draw(times), data.draw(times), data.draw(st.integers(1, 5)), schedule
    placed, timing = pipeline(*shape)
    graph = graph_of(placed, timing)
    slack = entry_slacks(graph)
    number = data.draw(st.integers(0, 2))
    block = graph.blocks[number]
    entry = data.draw(st.integers(0, len(block.part.segments.segment_of) - 1))
    own = int(slack[block.first + block.part.begins[block.part.compute] + entry])
    delay = data.draw(st.sampled_from([own // 2, own, own + 1, own + 777]))
    unchanged = _Run._kernels

    def delayed(self, group, column):
        works = list(unchanged(self, group, column))
        if group == number:
            works[entry] += delay
        return works

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_Run, "_kernels", delayed)
        _, later = pipeline(*shape)
    assert later.end == timing.end + max(0, delay - own)


def test_too_many_entries(monkeypatch):
    placed, timing = pipeline([F, F], [B, B])
    monkeypatch.setattr(slack_module, "MOST_WITH_SLACK", 10)
    assert "slack" not in critical_path_document(placed, timing, 1)["stages"][0]
    monkeypatch.setattr(limit_module, "MOST_ENTRIES", 10)
    with pytest.raises(TraceError, match="is not looked for"):
        critical_path_document(placed, timing, 1)
