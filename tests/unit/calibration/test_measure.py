"""Measuring with a recorded backend: which launches count, and the file that comes of it."""

from __future__ import annotations

from dataclasses import replace
from statistics import median

import pytest

from simcluster.accuracy.kernels import kernel_task, task_seconds
from simcluster.calibration import yaml_text
from simcluster.calibration.measure import (
    Benchmark,
    TorchBackend,
    benchmarks,
    best_rates,
    facts_of,
    host_like,
    measure,
    measured_device,
    measured_errors,
    measured_host,
    short_launches,
    sustained_launches,
)
from simcluster.cluster import ClusterSpec, DeviceSpec, load_cluster, load_device
from simcluster.collectives import Operation, collective_time
from simcluster.document import Document, validate_data
from simcluster.errors import ScenarioError


class Recorded:
    """A backend that answers as a device of the simulator would; the first launches of a kernel are slow."""

    software = "recorded"
    cores = 132
    memory = 80 * 2**30

    def __init__(self, device, words="NVIDIA H100", dtypes=("bf16",), num_devices=8):
        self.model, self.device, self.dtypes, self.num_devices = device, words, dtypes, num_devices
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
        return [num_bytes / (50e9 if to_device else 40e9)] * launches if self.cores > 100 else []

    def collective_times(self, asked, launches):
        """As a DGX H100 would whose steps cost twice as much, which has no reduce-scatter."""
        cluster = load_cluster("dgx-h100")
        times = []
        for one in asked:
            choice = collective_time(
                one.operation, cluster.placement(range(one.ranks)), one.num_bytes, cluster
            )
            lacks = one.operation is Operation.REDUCE_SCATTER
            times.append([] if lacks else [2 * choice.latency + choice.transfer] * launches)
        return times


@pytest.fixture(scope="module")
def device():
    plain = load_device("h100-sxm")
    return replace(plain, gemm=replace(plain.gemm, sustained=0.6, burst=1.25))


@pytest.fixture(scope="module")
def found(device):
    return measure(Recorded(device))


@pytest.fixture(scope="module")
def fitted(found):
    return measured_device(found, "h100-sxm")


def test_warm_ups_do_not_count(device):
    backend = Recorded(device)
    benchmark = Benchmark("elementwise", "add", "bf16", {"elements": 2**25})
    task = kernel_task(benchmark.row(0, "h100-sxm", 1.0, ""))
    assert median(short_launches(backend, benchmark)) == pytest.approx(task_seconds(task, device.in_burst()))
    assert backend.launched[benchmark.name] == 3 + 15


def test_a_sustained_loop_goes_on_until_the_clock_settles(device):
    backend = Recorded(device)
    (benchmark,) = [one for one in benchmarks(["bf16"]) if one.sustained and one.sizes["m"] == 8192]
    seconds = median(sustained_launches(backend, benchmark))
    assert backend.launched[benchmark.name] * seconds > 0.9


def test_copies_launch_and_dispatch_are_medians(found):
    assert (found.to_device, found.from_device) == pytest.approx((50e9, 40e9))
    assert found.dispatch == 8e-6
    assert 1e-6 < found.launch < 5e-6


def test_the_file_has_the_figures_of_the_device_that_was_measured(fitted):
    fit, data = fitted
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


FACTS = facts_of(
    "\n\n".join(f"model name : Xeon\nphysical id : {n // 4}\ncore id : {n % 4}" for n in range(8)),
    4,
    8,
    2**40,
)


def test_facts_are_read_from_the_operating_system():
    assert (FACTS.model, FACTS.sockets, FACTS.cores, FACTS.numa_nodes) == ("Xeon", 2, 4, 4)
    unknown = facts_of("", 1, 6, 2**30)
    assert (unknown.sockets, unknown.cores) == (1, 6)


def test_the_host_file_has_what_collectives_cost_here(found, fitted):
    _, data = fitted
    host = measured_host(found, data, FACTS, host_like("h100-sxm", found.num_devices))
    assert all(predicted == pytest.approx(seconds, rel=0.25) for _, seconds, predicted in host.compared)
    assert {one.operation for one, _, _ in host.compared} == set(Operation) & {
        Operation.ALL_REDUCE, Operation.ALL_GATHER, Operation.ALL_TO_ALL, Operation.SEND_RECEIVE
    }  # fmt: skip
    text = yaml_text({"host": host.data, "hosts": 2})
    cluster = validate_data(Document.parse(text, "ours.yaml").data, ClusterSpec).build()
    base = load_cluster("dgx-h100").host.protocols["default"][0].base
    assert cluster.host.protocols["default"][0].base == pytest.approx(2 * base, rel=0.15)
    assert (cluster.host.pcie.rate, cluster.host.cores) == (pytest.approx(40e9), 4)
    assert cluster.host.device.dispatch == pytest.approx(8e-6)


def test_a_single_device_has_no_collectives_and_still_a_host(device):
    single = measure(Recorded(device, num_devices=1))
    host = measured_host(single, {"use": "h100-sxm"}, FACTS, "hgx-h100-one-card")
    assert (single.collectives, host.compared) == ((), ())
    assert validate_data({"host": host.data, "hosts": 2}, ClusterSpec).build().host.num_devices == 1


def test_a_host_that_nobody_has_is_asked_for():
    with pytest.raises(ScenarioError, match="no host of the catalog has h100-pcie"):
        host_like("h100-pcie", 8)


def test_every_kernel_is_shown_beside_its_prediction(found, fitted):
    fit, _ = fitted
    errors = measured_errors(found, fit.device)
    assert len(errors) == len(found.rows)
    assert median(abs(one.error) for one in errors) < 0.1


def test_what_is_shown_names_what_was_measured_and_what_was_not(device, monkeypatch):
    from simcluster.cli.commands.calibrate import measured as shown

    monkeypatch.setattr(shown, "TorchBackend", lambda kind: Recorded(device, "NVIDIA H100-SXM5-80GB"))
    files = shown.measured_files("cuda", None, None, colour=False)
    assert "device 1 of 8, 132 cores each" in files.text
    assert "skipped, the library has none of these: reduce_scatter" in files.text
    assert "Collectives, measured and as the host file has them" in files.text
    assert files.rows.count("\n") > 40 and "use: dgx-h100" in files.host
