"""DeepSpeed's offload: what lies on hosts and drives, who updates, and what of it cannot be simulated."""

from __future__ import annotations

import pytest

from simcluster.foreign import TranslationStatus
from tests.support.deepspeed_files import CASES, CPU, NVME, ON_HOST, read


def placed(found):
    """What is said about offload and hosts."""
    return {key: value for key, value in found.data["parallel"].items() if key in ("host", "offload")}


def fates(found, name):
    """What became of settings whose names end so, each with its reason."""
    return [(each.status, each.reason) for each in found.untranslated if each.flag.name.endswith(name)]


@pytest.mark.parametrize("case", CASES)
def test_what_is_offloaded(case):
    stage, zero, expected = CASES[case]
    found = read(stage, zero)
    assert placed(found) == expected
    assert not {TranslationStatus.UNSUPPORTED, TranslationStatus.UNKNOWN} & {
        each.status for each in found.untranslated
    }


def test_requests_to_drives_are_those_of_aio():
    aio = {"block_size": 262144, "queue_depth": 32, "thread_count": 1}
    found = read(3, {"offload_optimizer": NVME}, aio=aio)
    assert placed(found)["offload"] == {
        "optimizer_states": "disk",
        "gradients": "host",
        "block": "262144 B",
        "queue": 32,
    }
    found = read(3, {"offload_optimizer": CPU}, aio=aio)
    assert placed(found)["offload"] == {"gradients": "host"}
    assert fates(found, "aio.queue_depth") == [(TranslationStatus.EFFECTLESS, "nothing is on drives")]


@pytest.mark.parametrize(
    ("stage", "zero", "name", "reason", "expected"),
    [
        (0, {"offload_optimizer": CPU}, "optimizer.device", "ZeRO stage 1 or more", {}),
        (2, {"offload_param": CPU}, "param.device", "ZeRO stage 3 or more", {}),
        (
            2,
            {"offload_optimizer": NVME},
            "optimizer.device",
            "in the memory of the host: drives go with ZeRO stage 3",
            ON_HOST | {"offload": {"gradients": "host"}},
        ),
        (
            1,
            {"offload_optimizer": {"device": "tape"}},
            "optimizer.device",
            "stays in the device's memory",
            {},
        ),
        (
            3,
            {"offload_optimizer": CPU | {"ratio": 0.4}},
            "ratio",
            "all updates are offloaded",
            ON_HOST | {"offload": {"gradients": "host"}},
        ),
        (
            1,
            {"offload_optimizer": CPU | {"pin_memory": False}},
            "pin_memory",
            "as from pinned memory",
            ON_HOST,
        ),
        (
            3,
            {"offload_param": NVME | {"max_in_cpu": 1e9, "buffer_count": 5}},
            "max_in_cpu",
            "all shards of weights are on drives",
            {"offload": {"parameters": "disk"}},
        ),
        (
            3,
            {"offload_optimizer": NVME | {"pipeline_read": False, "pipeline_write": True}},
            "pipeline_read",
            "drives read states beside updates",
            ON_HOST | {"offload": {"optimizer_states": "disk", "gradients": "host"}},
        ),
    ],
)
def test_what_differs_from_the_file_is_listed_aloud(stage, zero, name, reason, expected):
    found = read(stage, zero)
    ((fate, told),) = fates(found, name)
    assert fate is TranslationStatus.UNSUPPORTED
    assert reason in told
    assert placed(found) == expected


def test_hosts_without_figures_for_updates_leave_them_to_the_device():
    """The states lie on the host all the same, also where nothing is known of drives."""
    for device, more in ((CPU, []), (NVME, ["in the memory of the host: nothing is known of its drives"])):
        found = read(3, {"offload_optimizer": device}, cluster="dgx-spark")
        assert placed(found) == {"offload": {"optimizer_states": "host", "gradients": "host"}}
        told = fates(found, "optimizer.device")
        assert {fate for fate, _ in told} == {TranslationStatus.UNSUPPORTED}
        why = "updates run on the device: no figures are known for the host's processors"
        assert [reason for _, reason in told] == [*more, why]


def test_devices_whose_memory_is_the_hosts_have_nowhere_to_offload_to():
    found = read(3, {"offload_optimizer": CPU, "offload_param": CPU}, cluster="cpu-epyc")
    assert placed(found) == {}
    assert [fate for fate, _ in fates(found, ".device")] == [TranslationStatus.UNSUPPORTED] * 2


def test_other_rules_than_adam_update_on_the_device():
    found = read(1, {"offload_optimizer": CPU}, optimizer={"type": "Lamb"})
    assert placed(found) == {"offload": {"optimizer_states": "host"}}
    ((_, told),) = fates(found, "optimizer.device")
    assert "no others than Adam's" in told


def test_buffers_and_paths_are_without_effect():
    zero = {"offload_optimizer": CPU | {"buffer_count": 4, "nvme_path": "/local", "fast_init": True}}
    found = read(3, zero)
    for name in ("buffer_count", "nvme_path", "fast_init"):
        assert [fate for fate, _ in fates(found, name)] == [TranslationStatus.EFFECTLESS]
