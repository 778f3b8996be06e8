from __future__ import annotations

from statistics import fmean, stdev

import pytest

from simcluster.cluster import NOMINAL, Cluster, ClusterSpec, DeviceSpeed
from simcluster.document import Document, validate, validate_data
from simcluster.errors import PlanError, ScenarioError
from simcluster.work import DType, Kernel, Work


def cluster(*changes: dict, hosts: int = 4, seed: int = 0) -> Cluster:
    spec = validate_data({"use": "dgx-h100", "hosts": hosts, "changes": list(changes)}, ClusterSpec)
    return spec.build(seed)


def speeds(*changes: dict, hosts: int = 4, seed: int = 0) -> list[DeviceSpeed]:
    built = cluster(*changes, hosts=hosts, seed=seed)
    return [built.speed(rank) for rank in range(built.num_devices)]


def test_without_changes_all_devices_are_one():
    built = cluster()
    assert not built.speeds
    assert {built.device(rank) for rank in range(32)} == {built.host.device}


def test_by_device_by_list_by_host_and_all():
    found = speeds({"device": 21, "compute": 0.9}, {"host": 3, "memory_bandwidth": 0.8})
    assert found == [NOMINAL] * 21 + [DeviceSpeed(0.9)] + [NOMINAL] * 2 + [DeviceSpeed(1.0, 0.8)] * 8
    assert speeds({"device": [3, 1], "compute": 0.5})[:5] == [NOMINAL, DeviceSpeed(0.5)] * 2 + [NOMINAL]
    assert speeds({"host": [0, 1, 2, 3], "compute": 0.5}) == speeds({"devices": "all", "compute": 0.5})


def test_changes_of_one_device_multiply_and_may_cancel():
    every = {"devices": "all", "compute": 0.5}
    assert speeds(every, {"device": 2, "compute": 0.5, "memory_bandwidth": 2.0})[2] == DeviceSpeed(0.25, 2.0)
    assert speeds(every, {"device": 2, "compute": 2.0})[2] == NOMINAL


def test_devices_of_one_speed_are_one_object():
    built = cluster({"device": [1, 9], "compute": 0.9}, {"device": 2, "compute": 0.8})
    assert built.device(1) is built.device(9)
    assert len({built.device(rank) for rank in range(32)}) == 3


def test_a_slow_device_takes_longer_by_the_factor_of_what_bounds_the_kernel():
    built = cluster({"device": 1, "compute": 0.5}, {"device": 2, "memory_bandwidth": 0.5})
    size = {"m": 8192, "n": 8192, "k": 8192}
    gemm = Work(Kernel.GEMM, DType.BF16, 2 * 8192**3, 2**27, 2**27, tuple(size.items()))
    copy = Work(Kernel.COPY, DType.BF16, 0, 2**30, 2**30)
    launch = built.host.device.launch
    body = {
        (rank, work): built.device(rank).kernel_time(work) - launch
        for rank in (0, 1, 2)
        for work in (gemm, copy)
    }
    assert body[1, gemm] == pytest.approx(2 * body[0, gemm], rel=1e-12)
    assert body[1, copy] == body[0, copy]
    assert body[2, copy] == pytest.approx(2 * body[0, copy], rel=1e-12)
    assert body[2, gemm] == body[0, gemm]


def test_the_normal_law():
    jitter = {"devices": "all", "compute": {"normal": [0.9, 0.05]}}
    drawn = [speed.compute for speed in speeds(jitter, hosts=512)]
    assert fmean(drawn) == pytest.approx(0.9, abs=4 * 0.05 / 64)
    assert stdev(drawn) == pytest.approx(0.05, rel=0.05)
    assert sum(abs(each - 0.9) > 0.05 for each in drawn) / 4096 == pytest.approx(0.3173, abs=0.03)
    assert {speed.memory_bandwidth for speed in speeds(jitter)} == {1.0}


def test_draws_depend_on_seed_and_device_only():
    jitter = {"devices": "all", "compute": {"normal": [1.0, 0.05]}}
    known = speeds(jitter)
    assert known == speeds(jitter)
    assert known != speeds(jitter, seed=1)
    assert known == speeds(jitter, hosts=8)[:32]
    assert known[1:] == speeds({"device": 0, "compute": 0.5}, jitter)[1:]
    assert known[8:16] == speeds({"host": 1, "compute": jitter["compute"]})[8:16]
    twice = speeds(jitter, jitter)
    assert all(both.compute != one.compute**2 for both, one in zip(twice, known, strict=True))
    both = speeds(jitter | {"memory_bandwidth": {"normal": [1.0, 0.05]}})
    assert [speed.compute for speed in both] == [speed.compute for speed in known]
    assert all(speed.compute != speed.memory_bandwidth for speed in both)


def test_few_hosts_are_slow_with_all_their_devices():
    rare = {"hosts": "all", "compute": {"bernoulli": [0.05, 0.91]}}
    drawn = [speed.compute for speed in speeds(rare, hosts=512)]
    by_host = [set(drawn[first : first + 8]) for first in range(0, 4096, 8)]
    assert all(len(found) == 1 for found in by_host)
    assert sum({0.91} == found for found in by_host) / 512 == pytest.approx(0.05, abs=0.03)
    assert set(drawn) == {0.91, 1.0}
    single = {"devices": "all", "compute": rare["compute"]}
    assert [speed.compute for speed in speeds(single, hosts=512)].count(0.91) / 4096 == pytest.approx(
        0.05, abs=0.012
    )
    for probability, factor in ((0, 1.0), (1, 0.5)):
        change = {"hosts": "all", "compute": {"bernoulli": [probability, 0.5]}}
        assert {speed.compute for speed in speeds(change)} == {factor}


def test_draws_stay_above_a_tenth_of_the_mean():
    drawn = [speed.compute for speed in speeds({"devices": "all", "compute": {"normal": [1.0, 2.0]}})]
    assert min(drawn) == 0.1
    assert speeds({"devices": "all", "compute": {"normal": [0.7, 0]}}) == [DeviceSpeed(0.7)] * 32


WRONG = {
    "{device: 32, compute: 0.9}": ("3:20", "there is no device 32; the last of 32 is 31"),
    "{device: [1, 40], compute: 0.9}": ("3:24", "there is no device 40"),
    "{host: 4, compute: 0.9}": ("3:18", "there is no host 4; the last of 4 is 3"),
    "{device: -1, compute: 0.9}": ("3:20", "-1 is too small"),
    "{device: [], compute: 0.9}": ("3:12", "write at least 1"),
    "{device: [2, 2], compute: 0.9}": ("3:12", "2 is listed twice"),
    "{devices: some, compute: 0.9}": ("3:21", "write 'all'"),
    "{device: 1, compute: 0}": ("3:32", "0 is too small; write a number from 0.001 to 1000"),
    "{device: 1, compute: -0.5}": ("3:32", "-0.5 is too small"),
    "{device: 1, memory_bandwidth: .inf}": ("3:41", "not a finite number"),
    "{device: 1, compute: fast}": ("3:32", "'fast' is text"),
    "{device: 1, compute: {normal: [1.0, -1]}}": ("3:47", "-1 is too small"),
    "{hosts: all, compute: {bernoulli: [1.5, 0.9]}}": ("3:46", "1.5 is too large"),
    "{hosts: all, devices: all, compute: 0.5}": ("3:19", "'devices' names devices already"),
    "{device: 1, computed: 0.5}": ("3:23", "unknown key 'computed'; did you mean 'compute'?"),
    "{device: 1}": ("3:11", "this changes nothing"),
    "{compute: 0.9}": ("3:11", "which devices?"),
    "{device: 1, host: 1, compute: 0.5}": ("3:29", "'device' names devices already"),
    "{link: nvlink}": ("3:11", "this changes nothing; write bandwidth: 0.5"),
    "{device: 1, compute: 0.9, from: 2 s}": ("3:37", "unknown key 'from'"),
    "{device: 1, compute: 0.9, until: 5 s}": ("3:37", "unknown key 'until'"),
}


@pytest.mark.parametrize("change", WRONG)
def test_a_wrong_change_is_refused_where_it_stands(change):
    place, message = WRONG[change]
    text = f"use: dgx-h100\nhosts: 4\nchanges: [{change}]\n"
    with pytest.raises(ScenarioError) as error:
        validate(Document.parse(text, "x.yaml"), ClusterSpec)
    (problem,) = error.value.problems
    assert problem.where.endswith(place), str(problem)
    assert message in problem.message


def test_factors_that_multiply_out_of_all_bounds():
    with pytest.raises(PlanError, match=r"the changes of device 3 multiply to compute x 0\.0001"):
        cluster({"device": 3, "compute": 0.01}, {"host": 0, "compute": 0.01})


def test_a_cluster_without_end_is_refused_before_its_devices_are_listed():
    with pytest.raises(ScenarioError, match=r"8,000,000,000 devices; .* at most 1,048,576"):
        cluster({"devices": "all", "compute": 0.9}, hosts=10**9)


def test_a_cap_leaves_the_clock_that_its_power_allows():
    left = (430 / 630) ** (1 / 3)  # an H100 idles at 70 W and keeps to 700 W
    assert speeds({"devices": "all", "power": "500 W"}) == [DeviceSpeed(pytest.approx(left))] * 32
    both = speeds(
        {"devices": "all", "power": "600 W"}, {"host": 1, "power": "500 W"}, {"device": 9, "compute": 0.5}
    )
    assert both[8] == DeviceSpeed(pytest.approx(left))
    assert both[9] == DeviceSpeed(pytest.approx(left / 2))
    assert left < both[0].compute < 1
    assert speeds({"device": 3, "power": "700 W"}) == [NOMINAL] * 32


@pytest.mark.parametrize("power", ["701 W", "70 W", "0 W"])
def test_a_cap_beyond_what_a_device_can_take_is_refused(power):
    with pytest.raises(PlanError, match="is none for device 0"):
        cluster({"devices": "all", "power": power})


def test_a_cap_of_a_device_whose_power_is_not_known_is_refused():
    spec = validate_data(
        {"use": "cpu-server", "hosts": 1, "changes": [{"device": 0, "power": "100 W"}]}, ClusterSpec
    )
    with pytest.raises(PlanError, match="nothing is known of the power of device 0"):
        spec.build()
