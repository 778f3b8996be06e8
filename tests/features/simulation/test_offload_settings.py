"""What the settings of offload do: rates and sizes of copies, limits, and MindSpore's names."""

from __future__ import annotations

import math

import pytest

from simcluster.cluster import HostPath
from simcluster.collectives import copy_time
from simcluster.errors import ScenarioError
from simcluster.model import MemoryPlace
from simcluster.simulation import simulate
from simcluster.simulation.compose.build import build_scenario
from tests.support.offload_scenarios import copies, peak, scenario


def test_what_is_not_pinned_is_copied_at_half_the_rate():
    def flowing(**how):
        found = scenario({"optimizer_states": "host", **how})
        latency = copy_time(HostPath.TO_DEVICE, 0, 0, build_scenario(found).cluster, math.inf).latency * 1e9
        return sum(end - start - latency for start, end in copies(simulate(found), HostPath.TO_DEVICE))

    assert flowing(enable_pinned_mem=False) == pytest.approx(2 * flowing(), rel=1e-3)


def test_disks_give_as_much_as_is_asked_for():
    """One request at a time: a block in the time of an access."""
    how = {"enable_aio": False, "aio_block_size": "1 MiB", "access": "1 ms"}
    found = scenario({"optimizer_states": "disk", **how})
    states = 3 * 4 * build_scenario(found).plan.graph.num_parameters
    latency = copy_time(HostPath.FROM_DISKS, 0, 0, build_scenario(found).cluster, math.inf).latency * 1e9
    spent = sum(end - start - latency for start, end in copies(simulate(found), HostPath.FROM_DISKS))
    assert spent == pytest.approx(states / 2**20 * 1e6, rel=1e-3)


def test_blocks_and_limits_of_the_hosts_memory():
    states = {"optimizer_states": "host"}
    (exact,) = peak(scenario(states, {"data": 2}))["host_memory_bytes"]
    (blocks,) = peak(scenario({**states, "host_mem_block_size": "1 GiB"}, {"data": 2}))["host_memory_bytes"]
    assert exact["total"] < blocks["total"] == 2 << 30
    (limited,) = peak(scenario({**states, "offload_cpu_size": "1 GiB", "cpu_ratio": 0.5}, {"data": 2}))[
        "host_memory_bytes"
    ]
    assert limited["capacity"] == 1 << 30


def test_keys_about_disks_without_disks_are_named():
    notes = build_scenario(scenario({"activations": "host", "queue": 1, "block": "1 MiB"})).plan.notes
    assert "offload.block and offload.queue change nothing: nothing is stored on disks" in notes


def test_every_name_of_mindspores_offload_config():
    found = scenario(
        {
            "offload_path": "./offload",
            "offload_cpu_size": "1 GiB",
            "offload_disk_size": "2 GiB",
            "cpu_ratio": 0.5,
            "enable_pinned_mem": False,
            "enable_aio": True,
            "aio_block_size": "512 KiB",
            "aio_queue_size": 4,
            "offload_param": "cpu",
            "offload_checkpoint": "disk",
            "auto_offload": False,
            "host_mem_block_size": "1 MiB",
        }
    )
    plan = build_scenario(found).plan
    offload = plan.offload
    assert {name: (rule.place, rule.rates.pinned) for name, rule in offload.rules.items()} == {
        "parameters": (MemoryPlace.HOST, False),
        "activations": (MemoryPlace.DISK, False),
    }
    assert (offload.host_limit, offload.disk_limit, offload.host_block) == (1 << 29, 2 << 30, 1 << 20)
    assert offload.rules["activations"].rates.disk == pytest.approx(4 * 2**19 / 100e-6)
    assert any("./offload changes nothing" in note for note in plan.notes)


def test_mindspores_ratio_is_of_the_automatic_mode():
    spec = scenario({"auto_offload": True, "hbm_ratio": 0.9, "max_device_memory": "1 GiB"}).spec
    assert (spec.parallel.offload.auto, spec.parallel.offload.hbm_ratio) == (True, 0.9)


@pytest.mark.parametrize(
    ("written", "says"),
    [
        # It was called an unknown key.
        ({"offload_param": "nvme"}, "offload_param: 'nvme' is no place; write cpu, disk, or '' for neither"),
        ({"offload_checkpoint": True}, "offload_checkpoint: 'True' is no place"),
        ({"offload_param": "cpu", "parameters": "disk"}, "offload_param: 'parameters' is the same"),
    ],
)
def test_mindspores_places_that_are_refused(written, says):
    with pytest.raises(ScenarioError, match=says):
        scenario(written)
