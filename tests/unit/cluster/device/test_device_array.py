"""Devices beside each other cost what each costs alone, to the bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.cluster import DeviceArray, DeviceSpeed, device_names, load_device
from simcluster.errors import PlanError
from simcluster.work import DType, Kernel, Work

SPEEDS = [
    DeviceSpeed(),
    DeviceSpeed(0.5),
    DeviceSpeed(1.0, 0.8),
    DeviceSpeed(0.97, 1.03),
    DeviceSpeed(1.3, 0.1),
    DeviceSpeed(1e-3, 1e3),
]


def fleet(device):
    compute, bandwidth = np.array([(each.compute, each.memory_bandwidth) for each in SPEEDS]).T
    return DeviceArray(device, compute, bandwidth)


def works(device):
    """One work of every kernel, in a format that the device multiplies and in one that it may not."""
    size = st.just(0) | st.integers(1, 2**14)
    dtype = DType.BF16 if DType.BF16 in device.peak else next(iter(device.peak))
    gemm = st.builds(
        lambda b, m, n, k: Work(
            Kernel.GEMM,
            dtype,
            2 * b * m * n * k,
            2 * b * (m + n) * k,
            2 * b * m * n,
            (("b", b), ("m", m), ("n", n), ("k", k)),
        ),
        st.integers(1, 4),
        size,
        size,
        size,
    )
    attention = st.builds(
        lambda b, h, s, causal, backward: Work(
            Kernel.ATTENTION,
            dtype,
            4 * b * h * s * s * 64,
            b * h * s * 256,
            b * h * s * 128,
            (
                ("b", b),
                ("h", h),
                ("sq", s),
                ("skv", s),
                ("d", 64),
                ("causal", int(causal)),
                ("backward", int(backward)),
            ),
        ),
        st.integers(1, 4),
        st.integers(0, 32),
        size,
        st.booleans(),
        st.booleans(),
    )
    streaming = st.builds(
        lambda kernel, n: Work(kernel, DType.FP32, 3 * n, 4 * n, 4 * n),
        st.sampled_from([k for k in Kernel if k not in (Kernel.GEMM, Kernel.ATTENTION, Kernel.CONV)]),
        st.integers(0, 2**30),
    )
    return st.lists(gemm | attention | streaming, min_size=1, max_size=3)


@pytest.mark.parametrize("name", device_names())
@settings(max_examples=3)
@given(data=st.data())
def test_a_fleet_costs_what_its_devices_cost(name, data):
    device = load_device(name)
    each = data.draw(works(device))
    dispatch = data.draw(st.sampled_from([None, 0.0, 1e-4]))
    found = fleet(device).price(each, dispatch)
    for column, speed in enumerate(SPEEDS):
        alone = device.at(speed).price(each, dispatch)
        ours = found.busy_ns[column], found.host_ns[column], found.memory_ns[column]
        assert ours == (alone.busy_ns, alone.host_ns, alone.memory_ns), speed
    assert np.array_equal(found.total_ns, found.busy_ns + found.host_ns)


def test_a_format_without_a_rate_is_refused():
    device = load_device("v100-sxm2-32")
    work = Work(Kernel.GEMM, DType.FP8, 1024, 128, 64, (("m", 8), ("n", 8), ("k", 8)))
    with pytest.raises(PlanError, match="has no rate for a gemm in fp8"):
        fleet(device).price([work])
