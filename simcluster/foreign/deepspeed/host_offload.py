"""What DeepSpeed offloads to hosts and drives: ZeRO-Offload and ZeRO-Infinity.

``offload_optimizer`` (ZeRO 1 to 3) moves states and masters to the host, where its processors update weights;
with ZeRO 2 and 3 gradients are added up there. ``offload_param`` (ZeRO 3) moves the shards of weights. Drives
are for ZeRO 3 alone. Source: the public configuration documents.
"""

from __future__ import annotations

from collections.abc import Mapping

from simcluster.cluster import Cluster
from simcluster.foreign.assembly import known_host, state_host_updates
from simcluster.foreign.deepspeed.zero_stages import STAGE
from simcluster.foreign.importer_interface import UserAdditions
from simcluster.foreign.reading import Flag
from simcluster.foreign.translation import (
    Facts,
    Meaning,
    has_no_effect,
    not_expressible,
    read_boolean,
    read_integer,
    read_number,
    states_value,
    switch,
)

OPTIMIZER = "offload_optimizer"
WEIGHTS = "offload_param"
_DEVICES = {"none": "", "cpu": "host", "nvme": "disk"}
_ON_DEVICE = "everything stays in the device's memory"
_RATIO = "offloaded ratio"
_PINNED = "offload pinned"
_READ, _WRITE = "offload pipeline read", "offload pipeline write"
_BLOCK, _QUEUE = "aio block", "aio queue"
_CPU = "offload on host"


def _device(facts: Facts, flag: Flag) -> None:
    """``offload_optimizer.device`` and ``offload_param.device``."""
    read_place(facts, flag, flag.name.split(".")[-2])


def read_place(facts: Facts, flag: Flag, section: str) -> None:
    """Where the values of a section lie: none, cpu or nvme."""
    place = _DEVICES.get("none" if flag.value is None else str(flag.value))
    if place is None:
        facts.unsupported(flag, _ON_DEVICE)
    elif not place:
        facts.effectless(flag, "off")
    else:
        facts.say(section, place, flag)


_ZERO = "zero_optimization"
MEANINGS: Mapping[str, Meaning] = {
    f"{_ZERO}.{OPTIMIZER}.device": _device,
    f"{_ZERO}.{WEIGHTS}.device": _device,
    f"{_ZERO}.{OPTIMIZER}": not_expressible(_ON_DEVICE, unless=(None, False, {})),
    f"{_ZERO}.{WEIGHTS}": not_expressible(_ON_DEVICE, unless=(None, False, {})),
    f"{_ZERO}.cpu_offload": switch(OPTIMIZER, "host"),
    f"{_ZERO}.cpu_offload_params": switch(WEIGHTS, "host"),
    f"{_ZERO}.cpu_offload_param": switch(WEIGHTS, "host"),
    f"{_ZERO}.cpu_offload_use_pin_memory": states_value(_PINNED, read_boolean),
    f"{_ZERO}.{OPTIMIZER}.pin_memory": states_value(_PINNED, read_boolean),
    f"{_ZERO}.{WEIGHTS}.pin_memory": states_value(_PINNED, read_boolean),
    f"{_ZERO}.{OPTIMIZER}.ratio": states_value(_RATIO, read_number),
    f"{_ZERO}.{OPTIMIZER}.pipeline_read": states_value(_READ, read_boolean),
    f"{_ZERO}.{OPTIMIZER}.pipeline_write": states_value(_WRITE, read_boolean),
    f"{_ZERO}.{WEIGHTS}.max_in_cpu": states_value(_CPU, read_number),
    "aio.block_size": states_value(_BLOCK, read_integer),
    "aio.queue_depth": states_value(_QUEUE, read_integer),
}
"""Those settings that say where something lies or how it is copied; buffers and paths are without effect."""


def deepspeed_offload_meaning(name: str) -> Meaning | None:
    """What a setting about offload means; None if it is about something else."""
    below = (f"{_ZERO}.{OPTIMIZER}.", f"{_ZERO}.{WEIGHTS}.", "aio.")
    return MEANINGS.get(name) or (has_no_effect if name.startswith(below) else None)


def state_deepspeed_offload(facts: Facts, given: UserAdditions) -> None:
    """States what is offloaded, now that all settings are read; lists what cannot be simulated so."""
    cluster = known_host(given)
    stage = facts.get(STAGE, 0)
    places = {
        section: place
        for section, needed in ((OPTIMIZER, 1), (WEIGHTS, 3))
        if (place := _place(facts, section, stage, needed, cluster))
    }
    if OPTIMIZER in places:
        _optimizer(facts, places[OPTIMIZER], stage, cluster)
    if WEIGHTS in places:
        facts.say("parallel.offload.parameters", places[WEIGHTS], facts.flag(WEIGHTS))
    _copies(facts, places, stage)


def _place(facts: Facts, section: str, stage: int, needed: int, cluster: Cluster | None) -> str:
    """Where a section's values lie, as far as ZeRO's stage and the hosts allow; empty: on the device."""
    place, flag = facts.get(section, ""), facts.flag(section)
    if not place:
        return ""
    if stage < needed:
        facts.unsupported(flag, f"{_ON_DEVICE}: this goes with ZeRO stage {needed} or more")
        return ""
    hosts = cluster.kinds if cluster else ()
    if any(host.pcie is None for host in hosts):
        facts.unsupported(flag, f"{_ON_DEVICE}, as these hosts have no other")
        return ""
    if place == "disk" and stage < 3:
        facts.unsupported(flag, "in the memory of the host: drives go with ZeRO stage 3")
        return "host"
    if place == "disk" and any(not (host.disk_read and host.disk_write) for host in hosts):
        facts.unsupported(flag, "in the memory of the host: nothing is known of its drives")
        return "host"
    return str(place)


def _optimizer(facts: Facts, place: str, stage: int, cluster: Cluster | None) -> None:
    """States on the host or its drives, with the updates on the host's processors where there are figures."""
    flag = facts.flag(OPTIMIZER)
    if not state_host_updates(facts, flag, cluster) or place == "disk":
        facts.say("parallel.offload.optimizer_states", place, flag)
    if stage >= 2:
        facts.say("parallel.offload.gradients", "host", flag)


def _copies(facts: Facts, places: Mapping[str, str], stage: int) -> None:
    """How copies go, where there are any; settings about what there is not are listed without effect."""
    disks = "disk" in places.values()
    if _PINNED in facts.known:
        flag = facts.flag(_PINNED)
        if any(name.startswith("parallel.offload.") for name in facts.known):
            facts.say("parallel.offload.pinned", facts.get(_PINNED), flag)
        else:
            same = not places or facts.get(_PINNED)
            facts.compare(flag, same, "gradients and weights are copied as from pinned memory")
    for name, path, unit in ((_BLOCK, "block", " B"), (_QUEUE, "queue", "")):
        if name in facts.known:
            value = f"{facts.get(name)}{unit}" if unit else facts.get(name)
            facts.say_if(disks, f"parallel.offload.{path}", value, facts.flag(name), "nothing is on drives")
    whole = OPTIMIZER not in places or stage < 3 or facts.get(_RATIO) == 1
    overlapped = places.get(OPTIMIZER) != "disk"
    details = (
        (_RATIO, whole, "all updates are offloaded"),
        (_READ, overlapped or facts.get(_READ), "drives read states beside updates"),
        (_WRITE, overlapped or facts.get(_WRITE), "drives write states beside updates"),
        (_CPU, places.get(WEIGHTS) != "disk", "all shards of weights are on drives"),
    )
    for name, same, otherwise in details:
        if name in facts.known:
            facts.compare(facts.flag(name), same, otherwise)
