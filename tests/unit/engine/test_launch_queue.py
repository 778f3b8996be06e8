"""Kernels that wait for their launches, against a host and a device that are played kernel by kernel."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.engine.pricing.launch_queue import launch_stalls

STRETCHES = st.lists(st.tuples(st.integers(1, 50), st.integers(0, 50)), min_size=1, max_size=8)

FLEETS = st.lists(
    st.tuples(st.lists(st.integers(1, 50), min_size=3, max_size=3), st.integers(0, 50)), max_size=8
)


def played(stretch, times):
    """When the device is through, and how long kernels of the last time wait, after doing it many times."""
    launched = done = 0
    for _ in range(times):
        waits = []
        for kernel, launch in stretch:
            launched += launch
            waits.append(max(0, launched - done))
            done = max(done, launched) + kernel
    return done, waits


@given(STRETCHES)
@settings(max_examples=40)
def test_it_is_what_happens_in_the_long_run(stretch):
    kernels, launches = zip(*stretch, strict=True)
    waits = launch_stalls(kernels, launches)
    if sum(kernels) != sum(launches):
        # Until a device that is only just slower has been overtaken by its host.
        assert waits == played(stretch, 500)[1]
    assert sum(kernels) + sum(waits) == max(sum(kernels), sum(launches))


@given(FLEETS)
def test_many_devices_are_as_each_alone(stretch):
    launches = [launch for _, launch in stretch]
    together = launch_stalls([np.array(kernels) for kernels, _ in stretch], launches)
    for device in range(3):
        alone = launch_stalls([kernels[device] for kernels, _ in stretch], launches)
        assert [np.broadcast_to(each, 3)[device] for each in together] == alone


def test_a_long_kernel_hides_the_launches_of_short_ones():
    assert launch_stalls([100, 5, 5, 5], [20] * 4) == [0] * 4
    assert launch_stalls([5, 5], [20, 20]) == [15, 15]
    assert launch_stalls([30, 5, 5], [20] * 3) == [15, 0, 5]
    assert launch_stalls([], []) == []
