"""Measuring with a recorded backend: which launches count, and the file that comes of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simcluster.accuracy.kernels import kernel_task, task_seconds
from simcluster.calibration import yaml_text
from simcluster.calibration.measure import (
    Benchmark,
    TorchBackend,
    benchmarks,
    best_rates,
    measure,
    measured_device,
    short_time,
    sustained_time,
)
from simcluster.cluster import DeviceSpec, load_device
from simcluster.document import Document, validate_data
from simcluster.errors import ScenarioError


class Recorded:
    """A backend that answers as a device of the simulator would; the first launches of a kernel are slow."""

    software = "recorded"
    cores = 132

    def __init__(self, device, words="NVIDIA H100", dtypes=("bf16",)):
        self.model, self.device, self.dtypes = device, words, dtypes
        self.launched: dict[str, int] = {}

    def times(self, benchmark, launches):
        before = self.launched.get(benchmark.name, 0)
        self.launched[benchmark.name] = before + launches
        task = kernel_task(benchmark.row(0, "h100-sxm", 1.0, self.software))
        seconds = task_seconds(task, self.model.in_burst() if task.burst else self.model)
        return [seconds * (10 if before + number < 3 else 1) for number in range(launches)]

    def dispatch_times(self, launches):
        return [8e-6] * (launches - 1) + [1.0]

    def copy_times(self, num_bytes, *, to_device, launches):
        return [num_bytes / (50e9 if to_device else 40e9)] * launches


@pytest.fixture(scope="module")
def device():
    plain = load_device("h100-sxm")
    return replace(plain, gemm=replace(plain.gemm, sustained=0.6, burst=1.25))


@pytest.fixture(scope="module")
def found(device):
    return measure(Recorded(device))


def test_warm_ups_do_not_count(device):
    backend = Recorded(device)
    benchmark = Benchmark("elementwise", "add", "bf16", {"elements": 2**25})
    task = kernel_task(benchmark.row(0, "h100-sxm", 1.0, ""))
    assert short_time(backend, benchmark) == pytest.approx(task_seconds(task, device.in_burst()))
    assert backend.launched[benchmark.name] == 3 + 15


def test_a_sustained_loop_goes_on_until_the_clock_settles(device):
    backend = Recorded(device)
    (benchmark,) = [one for one in benchmarks(["bf16"]) if one.sustained and one.sizes["m"] == 8192]
    seconds = sustained_time(backend, benchmark)
    assert backend.launched[benchmark.name] * seconds > 0.9


def test_copies_launch_and_dispatch_are_medians(found):
    assert (found.to_device, found.from_device) == pytest.approx((50e9, 40e9))
    assert found.dispatch == 8e-6
    assert 1e-6 < found.launch < 5e-6


def test_the_file_has_the_figures_of_the_device_that_was_measured(found):
    fit, data = measured_device(found, "h100-sxm")
    assert fit.device.gemm.sustained == pytest.approx(0.6, rel=0.05)
    assert fit.device.gemm.burst == pytest.approx(1.25, rel=0.06)
    text = yaml_text(data)
    made = validate_data(Document.parse(text, "ours.yaml").data, DeviceSpec).build()
    assert made.gemm.sustained == pytest.approx(0.6, rel=0.05)
    assert made.dispatch == pytest.approx(8e-6)
    assert made.memory == load_device("h100-sxm").memory


def test_a_processor_takes_its_best_kernels_for_a_data_sheet(device):
    found = measure(Recorded(load_device("xeon-8480"), "processor", ("fp32",)), small=True)
    flops, moved = best_rates(found.rows)
    _, data = measured_device(found, "xeon-8480", processor=True)
    made = validate_data(data, DeviceSpec).build()
    assert made.memory_bandwidth == pytest.approx(moved / 0.9, rel=0.01)
    assert {str(dtype): rate for dtype, rate in made.peak.items()}["fp32"] == pytest.approx(
        flops["fp32"] / 0.9, rel=0.01
    )


def test_progress_is_told_before_each_benchmark(device):
    told = []
    measure(Recorded(device), step=lambda name, done, total: told.append((done, total)))
    assert told == [(number, len(told)) for number in range(len(told))]


def test_without_pytorch_the_extra_is_named(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ScenarioError, match="measuring needs torch") as caught:
        TorchBackend("cuda")
    assert caught.value.problems[0].extra == "calibrate"


@pytest.mark.thorough
def test_a_processor_is_measured_with_pytorch():
    pytest.importorskip("torch", reason="PyTorch is not installed: the extra calibrate has it")
    backend = TorchBackend("cpu")
    assert short_time(backend, Benchmark("elementwise", "add", "fp32", {"elements": 2**16})) > 0
    assert short_time(backend, benchmarks(["fp32"], small=True)[0]) > 0
