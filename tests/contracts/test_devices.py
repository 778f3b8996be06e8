"""Every device and host of the catalogs: sourced figures, and prices that a real device could show."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.cluster import (
    DeviceSpec,
    HostSpec,
    device_names,
    host_names,
    load_cluster,
    load_device,
    load_host,
)
from simcluster.cluster.spec.device_spec import StreamingKernel
from simcluster.cluster.spec.gemm_spec import NumberFormat
from simcluster.collectives import Operation, all_algorithms, collective_time
from simcluster.work import DType, Kernel, Work
from tests.support.catalog_figures import figures
from tests.support.kernel_works import attention, gemm, streaming

SIZES = (1, 3, 64, 100, 1000, 4096, 20_000)
STREAMING = [Kernel(name) for name in get_args(StreamingKernel)]


@pytest.fixture(params=device_names())
def device(request):
    return load_device(request.param)


@pytest.fixture(params=host_names())
def cluster(request):
    return load_cluster(request.param, hosts=4)


def test_the_formats_of_files_are_those_of_work():
    floats = {dtype.label for dtype in DType if dtype.is_float}
    assert set(get_args(NumberFormat)) == floats | {"int8"}


def test_every_kernel_can_be_priced():
    assert {Kernel.GEMM, Kernel.CONV, Kernel.ATTENTION, *STREAMING} == set(Kernel)


@st.composite
def zeros_and_ones(draw):
    """A kernel with a zero among its sizes, as one of a function of its dtype and of what stands for zero."""
    size = st.just(0) | st.integers(1, 2**14)
    sizes = draw(st.tuples(*[size] * 5).filter(lambda found: 0 in found))
    flags = draw(st.tuples(st.booleans(), st.booleans()))
    kernel = draw(st.sampled_from(Kernel))

    def made(dtype: DType, least: int) -> Work:
        a, b, c, d, e = (max(each, least) for each in sizes)
        if kernel is Kernel.ATTENTION:
            names = ("b", "h", "sq", "skv", "d", "causal", "backward")
            found = zip(names, (a, b, c, d, e, *map(int, flags)), strict=True)
            read, written = 2 * a * b * (c + d) * e, 2 * a * b * c * e
            return Work(kernel, dtype, 4 * a * b * c * d * e, read, written, tuple(found))
        if kernel in (Kernel.GEMM, Kernel.CONV):
            return replace(gemm(dtype, a, b, c, d), kernel=kernel)
        return streaming(kernel, a * b, c * d)

    return made


@pytest.mark.parametrize("name", device_names())
@settings(max_examples=3)
@given(made=zeros_and_ones())
def test_a_size_of_zero_has_a_price(name, made):
    """In every format; a finite one, and no more than if there were one in the place of nothing."""
    device = load_device(name)
    for dtype in device.peak:
        nothing, one = (device.price([made(dtype, least)], 0.0) for least in (0, 1))
        assert 1 <= nothing.total_ns <= one.total_ns
        assert 0 <= nothing.memory_ns <= nothing.busy_ns


@pytest.mark.parametrize("name", device_names())
def test_every_figure_of_a_device_has_a_source(name):
    found = dict(figures(DeviceSpec.sourced(name)))
    assert len(found) > 20
    for path, figure in found.items():
        assert figure.source.strip(), path
        assert figure.provenance in ("measured", "vendor", "assumed"), path


@pytest.mark.parametrize("name", host_names())
def test_every_figure_of_a_host_has_a_source(name):
    found = dict(figures(HostSpec.sourced(name)))
    assert len(found) > 10
    for path, figure in found.items():
        assert figure.source.strip(), path
        assert figure.provenance in ("measured", "vendor", "assumed"), path


@pytest.mark.parametrize("name", host_names())
def test_every_assumed_figure_is_listed(name):
    """But for facts that no result rests on."""
    facts = (".device.clock.", ".processors.", ".disks.")
    assumed = [
        figure
        for path, figure in figures(HostSpec.sourced(name))
        if figure.provenance == "assumed" and not path.startswith(facts)
    ]
    listed = load_cluster(name).assumptions
    assert len(listed) == len(assumed)
    assert [entry.source for entry in listed] == [figure.source for figure in assumed]
    assert all(entry.name and entry.value for entry in listed)
    assert len({entry.name for entry in listed}) == len(listed)


@pytest.mark.parametrize("name", host_names())
def test_a_host_names_only_algorithms_that_exist(name):
    assert set(load_host(name).protocols) - {"default"} <= {*all_algorithms(), *Operation}


def test_a_matmul_is_finite_monotone_and_never_beats_the_roofline(device):
    for dtype, peak in device.peak.items():
        for place in range(3):
            times = []
            for size in SIZES:
                sizes = [512, 512, 512]
                sizes[place] = size if place == 0 else -(-size // 128) * 128
                work = gemm(dtype, *sizes)
                times.append(device.kernel_time(work))
                bound = max(work.flops / peak, work.bytes_moved / device.memory_bandwidth)
                assert math.isfinite(times[-1]) and times[-1] >= bound + device.launch > bound
            assert all(shorter <= longer for shorter, longer in pairwise(times)), (dtype, place)


def test_attention_is_finite_monotone_and_never_beats_the_roofline(device):
    for dtype, peak in device.peak.items():
        for d in (32, 64, 96, 128, 192, 256, 512):
            for causal in (False, True):
                for backward in (False, True):
                    works = [
                        attention(dtype, 2, 8, s, d, causal, backward)
                        for s in (16, 128, 512, 1000, 4096, 32768)
                    ]
                    times = [device.kernel_time(work) for work in works]
                    for work, time in zip(works, times, strict=True):
                        bound = max(work.flops / peak, work.bytes_moved / device.memory_bandwidth)
                        assert math.isfinite(time) and time >= bound + device.launch
                    assert all(shorter <= longer for shorter, longer in pairwise(times)), (dtype, d, causal)


@pytest.mark.parametrize("kernel", STREAMING)
def test_a_memory_bound_kernel_is_finite_monotone_and_never_beats_the_roofline(device, kernel):
    times = [device.kernel_time(streaming(kernel, 10**power)) for power in range(11)]
    for power, time in enumerate(times):
        assert math.isfinite(time) and time >= 2 * 10**power / device.memory_bandwidth + device.launch
    assert all(shorter < longer for shorter, longer in pairwise(times))
    assert device.kernel_time(streaming(kernel, 0)) == device.launch
    heavy = streaming(kernel, 1, flops=10**15)
    assert device.kernel_time(heavy) >= 10**15 / device.vector[DType.FP32]


def test_memory_leaves_room_for_work(device):
    assert 0 <= device.reserved + 8 * device.communicator < device.memory


@pytest.mark.combinations
@pytest.mark.parametrize("operation", list(Operation))
def test_every_operation_is_priced_on_every_host(cluster, operation):
    groups = [range(2), (0, cluster.host.num_devices)]
    if operation is not Operation.SEND_RECEIVE:
        groups += [range(cluster.host.num_devices), range(cluster.num_devices)]
    for group in groups:
        if len(group) < 2:
            continue  # a host of one device
        span = cluster.placement(list(group))
        times = [collective_time(operation, span, 10**power, cluster).seconds for power in range(11)]
        assert all(math.isfinite(time) and time > 0 for time in times)
        assert all(shorter <= longer for shorter, longer in pairwise(times))
