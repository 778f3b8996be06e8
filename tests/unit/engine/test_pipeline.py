"""Closed forms of pipelines, through the whole engine."""

from __future__ import annotations

import numpy as np
import pytest

from simcluster.engine import instruction_times, record, run, waits
from simcluster.engine.memory import memory
from simcluster.plan.schedules.gpipe import GPipe
from simcluster.plan.schedules.one_f_one_b import OneFOneB
from simcluster.program import partition
from tests.pipelines import burning_program, quiet_cluster

F, B = 1_000_000, 2_000_000


def timing_of(forward, backward, schedule, micro_batches, *, overlapped=True, steps=1, **network):
    stages = len(forward)
    program = burning_program(
        forward, backward, schedule.timetable(stages, micro_batches), overlapped=overlapped
    )
    cluster = quiet_cluster(stages, **network)
    classes = partition(program, cluster)
    return program, cluster, classes, run(program, cluster, classes, steps=steps)


@pytest.mark.parametrize("overlapped", [True, False])
@pytest.mark.parametrize("schedule", [GPipe(), OneFOneB()])
@pytest.mark.parametrize(
    ("stages", "micro_batches"), [(1, 1), (1, 5), (2, 2), (2, 8), (4, 4), (4, 8), (4, 16), (8, 3)]
)
def test_makespan_of_equal_stages(schedule, stages, micro_batches, overlapped):
    _, _, _, timing = timing_of([F] * stages, [B] * stages, schedule, micro_batches, overlapped=overlapped)
    exact = (micro_batches + stages - 1) * (F + B)
    # Every hop takes at least a nanosecond.
    assert exact <= timing.end <= exact + 4 * (micro_batches + stages)


def test_bubble_is_what_the_pipeline_waits():
    _, _, _, timing = timing_of([F] * 4, [B] * 4, OneFOneB(), 8)
    gaps = waits(timing.classes, timing.end, "pipeline", 4)
    waited = gaps["cause"] == gaps.index("cause", "pipeline wait")
    length = (gaps["end"] - gaps["start"])[waited].sum()
    # (p - 1) / m of the compute, on every stage.
    assert length == pytest.approx(4 * 3 * (F + B), rel=1e-4)


def test_uneven_stages_golden_row():
    """mindspore.md 7.1: P4 M8, blocks 1, 1, 2, 1, backward twice the forward: makespan 55."""
    forward = [F, F, 2 * F, F]
    _, _, _, timing = timing_of(forward, [2 * each for each in forward], OneFOneB(), 8)
    assert timing.end == pytest.approx(55 * F, rel=1e-5)


@pytest.mark.parametrize(
    ("stages", "micro_batches", "bubble"),
    [
        (2, 2, 0.5),
        (2, 8, 0.125),
        (4, 4, 0.75),
        (4, 8, 0.375),
        (4, 16, 0.1875),
        (8, 8, 0.875),
        (8, 32, 0.21875),
    ],
)
def test_golden_bubbles(stages, micro_batches, bubble):
    """mindspore.md 7.1: bubble = (P end - compute) / compute, backward twice the forward."""
    _, _, _, timing = timing_of([F] * stages, [2 * F] * stages, OneFOneB(), micro_batches)
    compute = stages * micro_batches * 3 * F
    assert (stages * timing.end - compute) / compute == pytest.approx(bubble, rel=1e-5)


def test_steps_follow_each_other():
    _, _, _, once = timing_of([F] * 2, [B] * 2, OneFOneB(), 4)
    _, _, _, thrice = timing_of([F] * 2, [B] * 2, OneFOneB(), 4, steps=3)
    # The next step may start on the first stage while the last one still... no: its backward ends last.
    assert 3 * 4 * (F + B) < thrice.end <= 3 * once.end


def test_transfer_time_is_latency_and_bandwidth():
    """16 bytes at 16 MB/s are one microsecond, after 5 us of latency."""
    _, _, _, free = timing_of([F] * 2, [B] * 2, GPipe(), 1)
    _, _, _, slow = timing_of([F] * 2, [B] * 2, GPipe(), 1, bandwidth="16 MB/s", latency="5 us")
    assert slow.end - free.end == pytest.approx(2 * 6000, abs=8)


def test_blocking_transfers_cost_more_than_overlapped_ones():
    options = {"bandwidth": "160 kB/s"}  # 100 us per transfer
    _, _, _, overlapped = timing_of([F] * 4, [B] * 4, OneFOneB(), 8, **options)
    _, _, _, blocking = timing_of([F] * 4, [B] * 4, OneFOneB(), 8, overlapped=False, **options)
    assert overlapped.end < blocking.end


@pytest.mark.parametrize(("schedule", "alive"), [(GPipe(), [8, 8, 8, 8]), (OneFOneB(), [4, 3, 2, 1])])
def test_activations_alive_at_the_peak(schedule, alive):
    program, cluster, classes, timing = timing_of([F] * 4, [B] * 4, schedule, 8)
    times = [instruction_times(each) for each in timing.classes]
    stages = [program.stage_of(rank) for rank in classes.representatives]
    devices = [cluster.device(rank) for rank in classes.representatives]
    account = memory(program, stages, devices, timing.classes, times)
    for index, count in enumerate(alive):
        rows = account.where(account["class"] == index)
        kept = rows["category"] == rows.index("category", "activations")
        buffer = rows.text("buffer")
        inputs = kept & (buffer == ("stage0.in" if index == 0 else f"stage{index - 1}:out"))
        peak = np.cumsum(rows["bytes"][inputs]).max() / 16
        # Received one action ahead: one buffer more may be posted.
        assert count <= peak <= count + (index > 0)
        # The boundary's outputs wait for their transfer only.
        assert np.cumsum(rows["bytes"])[-1] == rows["bytes"][rows["time"] == 0][:2].sum()


def test_spans_cover_every_operator_of_every_micro_batch():
    program, _, classes, timing = timing_of([F] * 3, [B] * 3, OneFOneB(), 5)
    stages = [program.stage_of(rank) for rank in classes.representatives]
    table = record(program, stages, timing.classes).table()
    kernels = table["kind"] == table.index("kind", "compute")
    assert kernels.sum() == 3 * 5 * 2
    assert ((table["end"] - table["start"])[kernels] % F == 0).all()
    for name in ("stage0.there", "stage2.back"):
        mine = table["operator"] == table.index("operator", name)
        assert sorted(table["micro_batch"][mine].tolist()) == list(range(5))
