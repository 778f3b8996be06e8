"""Predictions of measured kernels, and how errors are put together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simcluster.accuracy import KernelGrouping, MeasuredKernel, kernels_csv, kernels_text, predict_kernels
from simcluster.accuracy.kernels import gemm_work, kernel_errors
from simcluster.cluster import load_device, operator_passes
from simcluster.errors import ScenarioError
from simcluster.work import DType, Kernel, Work


def row(**words) -> MeasuredKernel:
    counts = {name: words.pop(name) for name in ("m", "n", "k", "elements") if name in words}
    plain = {"id": "ours-1", "device": "NVIDIA H200", "kernel": "gemm", "op": "matmul", "dtype": "bf16"}
    every = plain | {"layout": "", "direction": "fwd", "causal": "", "notes": ""} | words
    return MeasuredKernel(2, every, counts, 1e-3)


SIZES = {"m": 4096, "n": 4096, "k": 4096}


def test_a_kernel_takes_what_its_device_says():
    (found,) = predict_kernels([row(**SIZES)])
    assert found.device == "h200-sxm" and found.how == "sustained"
    assert found.predicted == load_device("h200-sxm").kernel_time(gemm_work(DType.BF16, 1, 4096, 4096, 4096))
    assert found.error == pytest.approx(found.predicted / 1e-3 - 1)


def test_short_runs_are_faster_by_the_burst_of_the_device():
    sustained, burst = predict_kernels([row(**SIZES), row(**SIZES, notes="near boost clock")])
    device = load_device("h200-sxm")
    launch, times = device.launch, device.gemm.burst
    assert times > 1
    assert sustained.predicted - launch == pytest.approx((burst.predicted - launch) * times)


def test_an_implementation_moves_more_than_the_least_and_never_beats_its_floor():
    large, small = (row(kernel="rotary", op="rope [liger]", direction="bwd", elements=n) for n in (2**30, 2))
    found = predict_kernels([large, small], "a100-sxm-80")
    passes = operator_passes("liger", "rotary", "backward")
    device = load_device("a100-sxm-80")
    single = device.kernel_time(Work(Kernel.ELEMENTWISE, DType.BF16, 0, 2**32, 0)) - device.launch
    assert found[0].predicted == pytest.approx(device.launch + single * passes.traffic.value)
    assert found[1].predicted == passes.floor.value


def test_what_has_no_device_says_so_and_a_device_can_be_named():
    unknown = row(**SIZES, device="Abacus")
    (found,) = predict_kernels([unknown])
    assert found.reason == "no device of the catalog is known to be 'Abacus'"
    assert predict_kernels([unknown], "h100-sxm")[0].device == "h100-sxm"
    with pytest.raises(ScenarioError, match="there is no device 'h10-sxm'"):
        predict_kernels([unknown], "h10-sxm")


def test_errors_by_every_grouping_and_as_lines():
    rows = [row(**SIZES), row(**SIZES, dtype="fp16"), row(**SIZES, dtype="int5")]
    found = predict_kernels(rows)
    assert list(kernel_errors(found)) == ["gemm from 10 GFLOP", "all"]
    assert list(kernel_errors(found, KernelGrouping.DTYPE)) == ["bf16", "fp16", "all"]
    for grouping in KernelGrouping:
        assert kernel_errors(found, grouping)["all"].rows == 2
    text = kernels_text(found, 1)
    assert "2 of 3 kernels predicted" in text and "no device has a rate for int5" in text
    lines = kernels_csv(found).splitlines()
    assert len(lines) == 4 and lines[3].endswith("no device has a rate for int5")


def test_sizes_of_memory_bound_kernels_are_their_bytes():
    found = [
        replace(one) for one in predict_kernels([row(kernel="rotary", op="rope [liger]", elements=2**26)])
    ]
    assert list(kernel_errors(found)) == ["memory-bound from 64 MiB", "all"]
