"""Whether sweeping over streams gives the times of events."""

from __future__ import annotations

import numpy as np

from simcluster.analysis import find_idle_gaps, instruction_times
from simcluster.analysis.timeline.step_breakdown import break_down_classes, break_down_sweep
from simcluster.engine import Implementation, run
from simcluster.program import COMPUTE
from simcluster.program.communication.host_calls import HostCalls
from tests.support.event_equality import assert_same_times


def timed(built, method, **more):
    spec, plan = built.scenario.spec, built.plan
    return run(
        built.program,
        built.cluster,
        built.classes,
        steps=spec.run.steps,
        dispatch=plan.execution.dispatch,
        algorithms=plan.execution.algorithms,
        fabric=built.fabric,
        host=HostCalls.of(plan),
        implementation=method,
        **more,
    )


def assert_sweep_is_events(built):
    """Every start and arrival of every entry of every class, and every duration."""
    events, compiled, swept = (timed(built, each) for each in Implementation)
    assert_same_times(compiled, events)
    assert events.swept is None
    assert (events.end, events.num_events, events.num_flows) == (
        swept.end,
        swept.num_events,
        swept.num_flows,
    )
    assert len(events.classes) == len(swept.classes)
    for ours, theirs in zip(swept.classes, events.classes, strict=True):
        assert ours.codes.keys() == theirs.codes.keys()
        for a, b in zip(ours.linked.streams, theirs.linked.streams, strict=True):
            assert a.name == b.name
            for column in ("wait_stream", "wait_position", "meeting", "execution"):
                assert np.array_equal(getattr(a, column), getattr(b, column)), (a.name, column)
            assert a.name != COMPUTE or np.array_equal(a.duration, b.duration)
        ours_at, theirs_at = instruction_times(ours), instruction_times(theirs)
        for code, each in theirs_at.items():
            for name in ("starts", "ends", "arrivals"):
                assert np.array_equal(getattr(ours_at[code], name), getattr(each, name)), (code, name)
        for name in ("starts", "arrivals", "ends"):
            for a, b in zip(getattr(ours, name), getattr(theirs, name), strict=True):
                assert np.array_equal(a, b), name
    if swept.swept is None:
        return
    gaps = find_idle_gaps(events.classes, events.end, built.plan.stage_axis, built.plan.num_stages)
    assert_cuts_are_equal(
        break_down_sweep(swept.swept, built.plan.stage_axis),
        break_down_classes(built.program, events.classes, gaps),
        events.end,
    )


def assert_cuts_are_equal(ours, theirs, end):
    """The cut of a sweep against the one from the waits of every class."""
    assert list(ours.lost) == list(theirs.lost)
    for name in ("busy", "host", "slowed"):
        assert np.array_equal(getattr(ours, name), getattr(theirs, name)), name
    for cause, spent in ours.lost.items():
        assert np.array_equal(spent, theirs.lost[cause]), cause
    assert (ours.busy + ours.slowed + sum(ours.lost.values()) == end).all()
