from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.cluster import Device, Price, load_device, nanoseconds
from simcluster.cluster.device.attention import AttentionModel
from simcluster.cluster.device.gemm import GemmModel
from simcluster.cluster.device.rates import EfficiencyCurve
from simcluster.errors import PlanError
from simcluster.work import DType, Kernel, Work

HALF = EfficiencyCurve(((1.0, 0.5),))


def device(launch=2e-6, dispatch=0.0) -> Device:
    return Device(
        name="plain",
        kind="gpu",
        peak={DType.BF16: 1e12},
        vector={DType.FP32: 1e11},
        memory=10**9,
        memory_bandwidth=1e9,
        reserved=10**6,
        communicator=10**5,
        launch=launch,
        dispatch=dispatch,
        gemm=GemmModel(10, 1.0, ((64, 64),), 0.0, 0.0, 2, 1.0),
        attention=AttentionModel(10, 128, ((64, HALF),), 1.0, 1.0),
        streaming={
            kernel: HALF for kernel in Kernel if kernel not in (Kernel.GEMM, Kernel.ATTENTION, Kernel.CONV)
        },
    )


def copy(num_bytes: int, flops: int = 0) -> Work:
    return Work(Kernel.COPY, DType.FP32, flops, num_bytes, 0)


def gemm(kernel=Kernel.GEMM, dtype=DType.BF16) -> Work:
    return Work(kernel, dtype, 2 * 640 * 64 * 64, 0, 0, (("m", 640), ("n", 64), ("k", 64)))


def test_a_memory_bound_kernel_takes_its_bytes_and_its_launch():
    assert device().kernel_time(copy(5000)) == pytest.approx(2e-6 + 5000 / 0.5e9)


def test_a_memory_bound_kernel_with_much_arithmetic_is_bound_by_it():
    assert device().kernel_time(copy(5000, flops=10**9)) == pytest.approx(2e-6 + 0.01)


def test_a_matmul_takes_its_flops_and_its_launch():
    assert device().kernel_time(gemm()) == pytest.approx(2e-6 + 2 * 640 * 64 * 64 / 1e12)


def test_a_convolution_is_priced_as_its_implicit_matmul():
    assert device().kernel_time(gemm(Kernel.CONV)) == device().kernel_time(gemm())
    slower = replace(device(), convolution=0.5)
    assert slower.kernel_time(gemm()) == device().kernel_time(gemm())
    assert slower.kernel_time(gemm(Kernel.CONV)) == pytest.approx(2e-6 + 2 * 2 * 640 * 64 * 64 / 1e12)
    with pytest.raises(PlanError, match="conv without the sizes m, n, k"):
        device().kernel_time(Work(Kernel.CONV, DType.BF16, 1, 1, 1))


def test_a_dtype_without_a_rate_is_refused_by_name():
    with pytest.raises(PlanError, match=r"plain has no rate for a gemm in fp64\n.*it has: bf16"):
        device().kernel_time(gemm(dtype=DType.FP64))


def test_an_operator_is_the_sum_of_its_kernels():
    plain = device()
    works = [copy(5000), gemm(), copy(100)]
    assert plain.price(works).total_ns == nanoseconds(sum(map(plain.kernel_time, works)))
    assert plain.price(works).host_ns == pytest.approx(3 * 2000, abs=1)


def test_dispatch_is_a_floor_and_what_it_adds_is_the_hosts():
    plain = device(dispatch=50e-6)
    assert plain.price([copy(5000)]) == Price(busy_ns=10_000, host_ns=40_000, memory_ns=10_000)
    assert plain.price([copy(50_000)]) == Price(busy_ns=100_000, host_ns=2000, memory_ns=100_000)
    assert plain.price([copy(5000)], dispatch=0.0) == Price(busy_ns=10_000, host_ns=2000, memory_ns=10_000)


def test_no_kernel_still_takes_time():
    assert device().price([]) == Price(0, 1)
    assert device(dispatch=3e-6).price([]) == Price(0, 3000)


def test_a_price_is_remembered():
    plain = device()
    assert plain.price([copy(7)]) is plain.price((copy(7),))


@given(st.lists(st.integers(0, 10**12), max_size=4), st.floats(0, 1e-3))
def test_parts_of_a_price_are_whole_and_make_the_total(sizes, dispatch):
    price = device().price([copy(size) for size in sizes], dispatch)
    assert price.busy_ns >= 0 and price.host_ns >= 0
    assert price.total_ns == price.busy_ns + price.host_ns >= max(1, nanoseconds(dispatch))


def test_devices_are_told_apart_by_identity():
    assert load_device("h100-sxm") is load_device("h100-sxm")
    assert device() != device()


def test_h100_does_a_large_matmul_at_the_sustained_rate_and_a_tiny_one_at_the_launch():
    h100 = load_device("h100-sxm")
    sizes = (("m", 16384), ("n", 16384), ("k", 16384))
    large = Work(Kernel.GEMM, DType.BF16, 2 * 16384**3, 4 * 16384**2, 2 * 16384**2, sizes)
    assert large.flops / h100.kernel_time(large) == pytest.approx(0.765 * 989.4e12, rel=0.02)
    tiny = Work(Kernel.GEMM, DType.BF16, 2 * 16**3, 1024, 512, (("m", 16), ("n", 16), ("k", 16)))
    assert 2.45e-6 < h100.kernel_time(tiny) < 2.9e-6


def test_formats_run_at_their_own_sustained_rates():
    """Large squares, where neither tiles nor memory count: peak times the share that the format reaches."""
    size = 16384
    spent = {}
    for dtype in (DType.TF32, DType.BF16, DType.FP8):
        moved = size * size * dtype.itemsize
        work = Work(Kernel.GEMM, dtype, 2 * size**3, 2 * moved, moved, square(size))
        spent[dtype] = load_device("h100-sxm").kernel_time(work)
    peaks = {DType.TF32: 494.7 * 0.777, DType.BF16: 989.4 * 0.777, DType.FP8: 1979 * 0.709}
    for dtype, rate in peaks.items():
        assert spent[DType.BF16] / spent[dtype] == pytest.approx(rate / peaks[DType.BF16], rel=0.02)
        assert 2 * size**3 / spent[dtype] == pytest.approx(rate * 1e12, rel=0.05)


def square(size):
    return (("b", 1), ("m", size), ("n", size), ("k", size))


@pytest.mark.parametrize(
    ("name", "dtype", "has"),
    [
        ("a100-sxm-80", DType.FP8, "fp64, fp32, tf32, fp16, bf16, int8"),
        ("ascend-910b-313t", DType.FP8, "fp32, fp16, bf16, int8"),
        ("ascend-910b-313t", DType.TF32, "fp32, fp16, bf16, int8"),
    ],
)
def test_no_device_runs_a_format_it_does_not_have(name, dtype, has):
    work = Work(Kernel.GEMM, dtype, 2 * 64**3, 64 * 64, 64 * 64, square(64))
    with pytest.raises(PlanError, match=f"{name} has no rate for a gemm in {dtype}") as caught:
        load_device(name).kernel_time(work)
    assert caught.value.problems[0].hint == f"it has: {has}"
