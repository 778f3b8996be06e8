"""Peaks of many classes, for which bounds leave few rows to look at, against those of all rows in order."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.analysis.memory_usage import peak_memory
from simcluster.analysis.memory_usage.allocation_log import AllocationLog
from simcluster.analysis.timeline import EventIndex
from simcluster.engine import Implementation
from simcluster.number_arrays import offsets
from simcluster.simulation import build_scenario
from simcluster.simulation.recording import LazyTrace
from tests.support.implementations import timed
from tests.support.scenarios import TINY_GPT, scenario

JITTER = [{"devices": "all", "compute": {"normal": [1.0, 0.05]}}]
SCENARIOS = {
    "1f1b": scenario({"pipeline": 2, "data": 2, "tensor": 2}, micro_batches=6, changes=JITTER),
    "sequences": scenario(
        {"pipeline": 2, "data": 2, "tensor": 2},
        recipe="megatron_sp",
        optimizer_sharding={"zero": 1},
        changes=JITTER,
    ),
    "slowed": scenario(
        {"pipeline": 2, "data": 2, "tensor": 2}, host="dgx-h100", recipe="megatron_sp", changes=JITTER
    ),
    "gpt": scenario({"pipeline": 2, "data": 4}, model=TINY_GPT, run={"steps": 2}, changes=JITTER),
    "fsdp": scenario({"data": 8}, optimizer_sharding={"fsdp": {}}, changes=JITTER),
    "equal": scenario({"pipeline": 2, "data": 2, "tensor": 2}, recipe="megatron_sp"),
}


@cache
def timed_group(name):
    """A scenario, its timing with all classes of a part beside each other, and the account of these."""
    built = build_scenario(SCENARIOS[name], unfold=True)
    timing = timed(built, Implementation.REFERENCE, many=1)
    assert max(len(group.group.indices) for group in timing.groups) > 1
    return timing, LazyTrace(built.placed, timing).account


def peaks_of(log, group, capacity, *, all_rows):
    """What is known of the peaks of the classes of a group, from all rows of a log or from few."""
    in_order = [log.in_order(group, slice(number, number + 1)) for number in range(len(group.group.indices))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(peak_memory, "MOST_SORTED", 2**62 if all_rows else 0)
        return [
            (
                peak.total,
                peak.time,
                peak.exceeded,
                peak.by_category.tolist(),
                np.sort(peak.rows()).tolist(),
            )
            for peak in peak_memory.find_peaks(log, group, capacity, in_order.__getitem__)
        ]


def assert_same_peaks(log, group):
    totals = [total for total, *_ in peaks_of(log, group, 0, all_rows=True)]
    for capacity in (max(totals), max(totals) - 1, min(totals) - 1, min(totals) // 2):
        wanted = peaks_of(log, group, capacity, all_rows=True)
        assert peaks_of(log, group, capacity, all_rows=False) == wanted
        assert any(exceeded >= 0 for _, _, exceeded, *_ in wanted) is (capacity < max(totals))


@pytest.mark.parametrize("name", SCENARIOS)
def test_few_rows_have_the_peaks_of_all(name):
    timing, account = timed_group(name)
    for group in timing.groups:
        assert_same_peaks(account.log(group.group.indices[0]), group)


@pytest.mark.parametrize("name", ["1f1b", "slowed"])
@settings(max_examples=20)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 60))
def test_few_of_random_rows_have_the_peaks_of_all(name, seed, count):
    """Rows at any events, many at one time: a kernel starts when the one before it ends."""
    timing, _ = timed_group(name)
    group, random = timing.groups[0], np.random.default_rng(seed)
    events = EventIndex.of(group.group.part)
    lengths = random.integers(1, 3, count)
    near = random.integers(0, events.count) + random.integers(0, 40, lengths.sum())
    moments = random.integers(0, 3, lengths.sum()) * events.count + near % events.count
    sizes = np.sort(random.choice([-300, -200, -100, 100, 200, 300], count))
    log = AllocationLog(
        events,
        np.append(moments, events.zero),
        offsets(np.append(lengths, 1)),
        random.integers(0, 3, count + 1),
        np.append(sizes, 100_000),
        np.arange(count + 1),
        np.full(count + 1, -1),
    )
    assert_same_peaks(log, group)
