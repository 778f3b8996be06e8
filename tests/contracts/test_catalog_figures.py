"""Figures of the catalog against each other: what is said to follow from another figure does, collectives are
no faster than links, and narrower formats no slower than wider ones.
"""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from simcluster.cluster import (
    DeviceSpec,
    HostSpec,
    device_names,
    host_names,
    load_cluster,
    load_device,
    load_host,
)
from simcluster.cluster.device import EfficiencyCurve
from simcluster.collectives import Operation, collective_time
from simcluster.work import DType
from tests.support.catalog_figures import figures
from tests.support.kernel_works import attention, gemm

each_device = pytest.mark.parametrize("name", device_names())
each_host = pytest.mark.parametrize("name", host_names())

WIDEST_FIRST = ("fp64", "fp32", "tf32", "bf16", "fp8")
SCALED = (("fp8", "mxfp8"), ("nvfp4", "mxfp4"))
"""Formats that the same units multiply at the same rate. The second gains nothing over the first."""


@each_device
def test_shares_are_of_formats_that_it_multiplies(name):
    spec = DeviceSpec.load(name)
    assert set(spec.gemm.formats) <= set(spec.peak)


@each_device
def test_a_part_has_a_limit_of_power_of_its_own(name):
    """Another part's is the first thing that is wrong about a part that borrows its kernels."""
    power = DeviceSpec.sourced(name).power
    assert power is None or "(as " not in power.peak.source


@each_device
def test_narrower_formats_take_no_longer(name):
    device = load_device(name)
    known = [dtype for dtype in map(DType.of, WIDEST_FIRST) if dtype in device.peak]
    for priced in (
        lambda dtype: gemm(dtype, 4096, 4096, 4096),
        lambda dtype: attention(dtype, 4, 32, 4096, 128, causal=True, backward=False),
    ):
        times = [device.kernel_time(priced(dtype)) for dtype in known]
        assert all(wider >= narrower * (1 - 1e-9) for wider, narrower in pairwise(times))


@each_device
@pytest.mark.parametrize(("plain", "scaled"), SCALED)
def test_a_format_with_scales_is_no_faster_than_the_one_of_the_same_units(name, plain, scaled):
    device = load_device(name)
    if DType.of(plain) in device.peak and DType.of(scaled) in device.peak:
        times = [device.kernel_time(gemm(DType.of(dtype), 8192, 8192, 8192)) for dtype in (plain, scaled)]
        assert times[0] <= times[1] * (1 + 1e-9)


@each_device
def test_more_products_and_heads_take_no_less_time(name):
    device = load_device(name)
    for dtype in device.peak:
        for times in (
            [device.kernel_time(gemm(dtype, 500, 512, 512, count)) for count in range(1, 40)],
            [device.kernel_time(attention(dtype, b, 8, 1000, 128, True, True)) for b in range(1, 20)],
            [device.kernel_time(attention(dtype, 1, h, 1000, 128, True, False)) for h in range(1, 20)],
        ):
            assert all(fewer <= more * (1 + 1e-12) for fewer, more in pairwise(times)), dtype


@each_device
def test_an_efficiency_that_follows_from_another_does(name):
    """Sources like "as elementwise" and "optimizer x 0.89, ..."."""
    streaming = dict(DeviceSpec.sourced(name).streaming)
    for kernel, figure in streaming.items():
        told = re.match(
            r"(?:as (elementwise|optimizer)$)|(?:(elementwise|optimizer) x ([0-9.]+))", figure.source
        )
        if told:
            other, factor = streaming[told[1] or told[2]], float(told[3] or 1)
            curve = EfficiencyCurve(other.value)
            for num_bytes, share in figure.value:
                assert share == pytest.approx(factor * curve.at(num_bytes), abs=0.0075), kernel


@each_host
def test_a_host_of_a_series_does_not_cite_another_ones_datasheet(name):
    """Unless it says that it borrows, which makes figures assumed."""
    spec = HostSpec.sourced(name)
    for path, figure in figures(spec):
        cited = re.match(r"((?:DGX|HGX|GB)[- ]?\w+)(?: NVL72)? (?:datasheet|white paper)", figure.source)
        if cited and spec.title.startswith("NVIDIA DGX") and not path.startswith(".device."):
            assert cited[1] in spec.title, path


@pytest.mark.parametrize("name", ["dgx-h200", "hgx-h800", "aws-p5", "aws-p5en"])
def test_the_same_silicon_has_one_clock_under_the_load_of_a_step(name):
    """In hosts; single kernels are what their own measurements say."""
    assert load_host(name).device.gemm.sustained == load_host("dgx-h100").device.gemm.sustained


@pytest.mark.parametrize("name", ["dgx-h100", "dgx-h200", "hgx-h800", "hgx-h20", "gaudi-2-8"])
def test_a_whole_step_runs_at_a_lower_clock_than_single_kernels(name):
    single = load_device(str(HostSpec.load(name).device.use)).gemm.sustained
    assert load_host(name).device.gemm.sustained / single == pytest.approx(0.85, abs=0.025)


def test_a_part_that_multiplies_slower_loses_less_to_all_else():
    """Multiprocessors of the H20 multiply at a quarter of the H100's rate and do all else as fast."""
    slow, fast = load_device("h20-sxm"), load_device("h100-sxm")
    bf16 = DType.BF16
    pace = (slow.peak[bf16] / slow.gemm.units) / (fast.peak[bf16] / fast.gemm.units)
    assert pace == pytest.approx(0.253, abs=0.001)
    assert slow.gemm.traffic == pytest.approx(fast.gemm.traffic / 4)
    assert slow.gemm.ramp == pytest.approx(fast.gemm.ramp / 4)
    for (dim, share), (_, other) in zip(slow.attention.forward, fast.attention.forward, strict=True):
        for keys in (512, 1024, 2048, 4096, 8192, 16384, 65536):
            expected = 1 / (1 + pace * max(0, 1 / other.at(keys) - 1 / fast.gemm.sustained))
            assert share.at(keys) == pytest.approx(min(0.94, expected), abs=0.001), (dim, keys)


def test_attention_on_h20_is_near_what_is_measured():
    """532 us with cuDNN and 545 with FA3 (flash-attention issue 1310)."""
    seconds = load_device("h20-sxm").kernel_time(attention(DType.BF16, 2, 16, 2048, 128, False, False))
    assert seconds == pytest.approx(538e-6, rel=0.1)


MEASURED_BETWEEN = ("jean-zay-a100", "dgx-spark")
"""Hosts whose shares of the network are measurements of their own."""


@each_host
def test_ll_between_hosts_reaches_what_nccl_plans(name):
    """Half of the network at most, as half of its bytes are flags, and 20.4 GB/s a host, with processors of
    AMD 19 (NCCL 2.28.3, src/graph/tuning.cc, several hosts).
    """
    spec, host = HostSpec.load(name), load_host(name)
    if not spec.device.title.startswith("NVIDIA") or name in MEASURED_BETWEEN:
        return
    amd = spec.processors is not None and "EPYC" in spec.processors.model.value
    usable = host.network.nics * host.network.link.rate
    for algorithm, most in (("default", 1 / 2), ("tree", 0.92 / 3.8), ("pairwise", 1 / 2)):
        for protocol in spec.collectives.get(algorithm, {}).items():
            if protocol[0] == "ll":
                reached = protocol[1].value.network_share * usable
                assert reached == pytest.approx(min(most * usable, 19e9 if amd else 20.4e9), rel=0.2), (
                    algorithm
                )


def test_ll_in_a_dgx_2_reaches_what_nccl_plans():
    """39 GB/s on one host of V100 (NCCL 2.28.3)."""
    host = load_host("dgx-2")
    share = HostSpec.load("dgx-2").collectives["default"]["ll"].value.host_share
    assert share * host.fabric.rate(host.num_devices) == pytest.approx(39e9, rel=0.01)


PRODUCT = re.compile(
    r"(?<![A-Za-z0-9])(?:[VPAHB]\d{2,3}0?|GB\d+|MI\d+X?|L\d+S?|910[ABC]|Gaudi \d|\d{4})(?![A-Za-z0-9])"
)


@each_host
def test_a_host_has_the_devices_that_its_title_names(name):
    spec = HostSpec.load(name)
    for product in PRODUCT.findall(spec.title.replace("_", " ")):
        assert product in spec.device.title


@each_device
def test_amd_counts_memory_in_gib(name):
    """As its drivers report it: 191.5 to 192 GiB of an MI300X of "192 GB"."""
    spec = DeviceSpec.load(name)
    if spec.title.startswith("AMD Instinct"):
        nominal = int(re.search(r"(\d+) GB", spec.title)[1])
        assert 0.99 * nominal <= spec.memory.value / 2**30 <= nominal


LARGE = 2**34


@each_host
@pytest.mark.parametrize("hosts", [1, 2])
def test_no_collective_is_faster_than_the_raw_links(name, hosts):
    """What a rank must send, and what a host must, at the full rate of its links."""
    cluster = load_cluster(name, hosts=2)
    host = cluster.host
    ranks = hosts * host.num_devices
    if ranks < 2:
        return
    group = cluster.placement(range(ranks))
    inside = host.fabric.rate(host.num_devices) / host.fabric.link.efficiency
    if host.island:
        inside += host.island.fabric.rate(host.island.num_devices) / host.island.fabric.link.efficiency
    between = host.network.nics * host.network.link.bandwidth
    others = (ranks - 1) / ranks
    for operation, rank_sends, host_sends in (
        (Operation.ALL_REDUCE, 1 if host.fabric.reduces else 2 * others, 1),
        (Operation.ALL_GATHER, others, 1 / 2),
        (Operation.REDUCE_SCATTER, others, 1 / 2),
        (Operation.ALL_TO_ALL, others, host.num_devices / 2),
    ):
        seconds = collective_time(operation, group, LARGE, cluster).seconds
        alone = hosts == 1 or host.pod is not None
        own_links = inside if alone else inside + between / host.num_devices
        assert seconds >= rank_sends * LARGE / own_links, operation
        assert alone or seconds >= host_sends * LARGE / between, operation
