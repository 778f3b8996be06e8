"""Whether all ways to time a run, and to look at what it did, give the same."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from dataclasses import replace

import numpy as np
import pytest

from simcluster.analysis import find_idle_gaps, instruction_times
from simcluster.analysis.timeline import WAITS, break_down
from simcluster.engine import Implementation, run, run_together
from simcluster.program import HOST
from simcluster.simulation.compose.build import workload_of
from tests.support.event_equality import assert_same_times
from tests.support.linking import kernel_durations


@contextmanager
def many_from(count):
    """So many classes are beside each other, in program order as long as they may be.

    Where that is one, bounds say at which allocations peaks can be.
    """
    with pytest.MonkeyPatch.context() as patch:
        if count == 1:
            patch.setattr("simcluster.analysis.memory_usage.peak_memory.MOST_SORTED", 0)
        patch.setattr("simcluster.engine.pricing.priced_classes.MANY_CLASSES", count)
        patch.setattr("simcluster.engine.compiled.run.LONG", 0)
        patch.setattr("simcluster.engine.compiled.run.WIDE", 1)
        yield


METHODS = (Implementation.REFERENCE, Implementation.COMPILED)
WAYS = [(method, count) for method in Implementation for count in (1, 10**9)]
"""Implementations, with the classes of a part beside each other, or one by one."""


def timed(built, method, many=None, progress=None, **more):
    """What a built scenario does."""
    workload = replace(workload_of(built), **more)
    with nullcontext() if many is None else many_from(many):
        return run(workload, progress, method)


def assert_both_agree(workload):
    """Both implementations, the compiled one also with classes beside each other; the reference's timing."""
    (reference,), (compiled,) = (run_together([workload], None, method) for method in METHODS)
    assert_same_times(compiled, reference)
    with many_from(1):
        (together,) = run_together([workload], None, Implementation.COMPILED)
    assert_same_times(together, reference, solves=False)
    return reference


def assert_all_agree(built, **more):
    """Every time of every entry of every class, every duration, and the breakdown; the reference's timing."""
    reference = timed(built, Implementation.REFERENCE, 10**9, **more)
    assert not reference.many
    for one in reference.classes:
        # The processes record when kernels start, which others are taken to do when they are ready.
        for stream, starts in zip(one.group.streams, one.starts, strict=True):
            assert np.array_equal(stream.starts[:, one.column], starts)
    for method, count in WAYS:
        again = (method, count) != (Implementation.REFERENCE, 10**9)
        timing = timed(built, method, count, **more) if again else reference
        assert timing.many is (count == 1 and not built.cluster.mixed)
        assert_same_times(timing, reference, solves=not timing.many)
        for ours, theirs in zip(timing.classes, reference.classes, strict=True):
            assert_same_program(ours, theirs)
            ours_at, theirs_at = instruction_times(ours), instruction_times(theirs)
            for code, each in theirs_at.items():
                for name in ("starts", "ends", "arrivals"):
                    assert np.array_equal(getattr(ours_at[code], name), getattr(each, name)), (code, name)
        assert_same_breakdown(built, timing, reference)
    return reference


def assert_same_program(ours, theirs):
    assert ours.part.codes.keys() == theirs.part.codes.keys()
    for a, b in zip(ours.part.streams, theirs.part.streams, strict=True):
        assert a.name == b.name
        for column in ("execution", "kind_of", "kinds"):
            assert np.array_equal(getattr(a, column), getattr(b, column)), (a.name, column)
    for column in ("first_wait", "awaited"):
        assert np.array_equal(getattr(ours.part, column), getattr(theirs.part, column)), column
    assert np.array_equal(kernel_durations(ours), kernel_durations(theirs))


def assert_same_breakdown(built, timing, reference):
    """That of the times against the one of the reference's and its table of gaps; all fill the run."""
    plan = built.plan
    gaps = find_idle_gaps(reference.classes, reference.end, plan.stage_axis, plan.num_stages)
    ours, theirs = (break_down(built.program, times, plan.num_stages) for times in (timing, reference))
    charged = {cause: theirs.parts[name] for name, cause in WAITS.items()} | dict(theirs.exposed)
    for number, cause in enumerate(gaps.names["cause"]):
        rows = gaps["cause"] == number
        spent = np.zeros(len(reference.classes), dtype=np.int64)
        np.add.at(spent, gaps["class"][rows], (gaps["end"] - gaps["start"])[rows])
        # What kernels wait for the host is told with their launches.
        assert cause == HOST or np.array_equal(spent, charged.pop(cause)), cause
    assert not any(spent.any() for spent in charged.values())
    for mine, other in ((ours.parts, theirs.parts), (ours.exposed, theirs.exposed)):
        assert list(mine) == list(other)
        assert all(np.array_equal(mine[name], other[name]) for name in mine)
    assert (sum([*ours.parts.values(), *ours.exposed.values()]) == timing.end).all()
