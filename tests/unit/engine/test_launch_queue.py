"""Kernels that wait for their launches, against a host and a device that are played entry by entry."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from simcluster.engine.pricing.launch_queue import QueuedLaunch, launch_stalls

TIMES = st.integers(1, 50)
HOST = st.integers(0, 50)


@st.composite
def stretches(draw, collectives=True, fleet=False):
    """Kernels and collectives in the order of their launches, each behind some of those before it."""
    stretch = []
    for place in range(draw(st.integers(1, 8))):
        duration = np.array(draw(st.lists(TIMES, min_size=3, max_size=3))) if fleet else draw(TIMES)
        kernel = not collectives or draw(st.booleans())
        after = tuple(other for other in range(place) if collectives and draw(st.booleans()))
        stretch.append(QueuedLaunch(duration, draw(HOST), "compute" if kernel else "network", after, kernel))
    return stretch


def kernels(*times):
    return [QueuedLaunch(duration, launch) for duration, launch in times]


def played(stretch, times, hosted=True):
    """When the kernels are through, and how long those of the last time wait, after doing it many times."""
    host, free = 0, {}
    for _ in range(times):
        waits, ends = [], []
        for launch in stretch:
            host += launch.host
            ready = max([free.get(launch.stream, 0), *(ends[other] for other in launch.after)])
            waits.append(max(0, host - ready) if hosted and launch.waits else 0)
            ends.append(ready + waits[-1] + launch.duration)
            free[launch.stream] = ends[-1]
            if launch.awaited:
                host = max(host, ends[-1])
    return free.get("compute", 0) or free.get("", 0), waits


@given(stretches())
@settings(max_examples=60)
def test_it_is_what_happens_in_the_long_run(stretch):
    host = sum(launch.host for launch in stretch)
    # Else a stream of collectives falls behind by a little every time, until it decides after many.
    assume(sum(launch.duration for launch in stretch if not launch.waits) < host)
    waits = launch_stalls(stretch)
    alone = (played(stretch, 40, hosted=False)[0] - played(stretch, 20, hosted=False)[0]) / 20
    if alone < host and any(launch.waits for launch in stretch):
        assert waits == played(stretch, 200)[1]
    elif alone > host:
        assert not any(waits)


@given(stretches(collectives=False))
def test_kernels_alone_take_as_long_as_the_slower_side(stretch):
    busy, host = (sum(getattr(launch, name) for launch in stretch) for name in ("duration", "host"))
    assert busy + sum(launch_stalls(stretch)) == max(busy, host)


@given(stretches(fleet=True))
def test_many_devices_are_as_each_alone(stretch):
    together = launch_stalls(stretch)
    for device in range(3):
        single = [
            QueuedLaunch(int(launch.duration[device]), launch.host, launch.stream, launch.after, launch.waits)
            for launch in stretch
        ]
        assert [np.broadcast_to(each, 3)[device] for each in together] == launch_stalls(single)


def test_a_long_kernel_hides_the_launches_of_short_ones():
    assert launch_stalls(kernels((100, 20), (5, 20), (5, 20), (5, 20))) == [0] * 4
    assert launch_stalls(kernels((5, 20), (5, 20))) == [15, 15]
    assert launch_stalls(kernels((30, 20), (5, 20), (5, 20))) == [15, 0, 5]
    assert launch_stalls([]) == []


def test_a_collective_hides_launches_as_a_kernel_does_and_costs_the_host_its_call():
    kernel, awaited = QueuedLaunch(5, 20, "compute"), QueuedLaunch(5, 20, "compute", (1,))
    collective = QueuedLaunch(60, 0, "network", (0,), waits=False)
    assert launch_stalls([kernel, collective, awaited]) == [0, 0, 0]
    free, called = (QueuedLaunch(10, host, "network", (0,), waits=False) for host in (0, 9))
    assert sum(launch_stalls([kernel, free, awaited])) == 20
    assert sum(launch_stalls([kernel, called, awaited])) == 29


def test_nothing_is_launched_ahead_of_what_the_host_waits_for():
    stretch = [
        QueuedLaunch(100, 10),
        QueuedLaunch(5, 10, awaited=True),
        QueuedLaunch(5, 10),
        QueuedLaunch(100, 10),
    ]
    assert launch_stalls(stretch) == [0, 0, 10, 5]
