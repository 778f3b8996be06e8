"""The cluster of a run, by what its row says of hardware, hosts and links."""

from __future__ import annotations

import math
import re
from typing import Any

from simcluster.accuracy.hardware import HardwareSpec, hardware_of
from simcluster.accuracy.runs.row import MeasuredRun
from simcluster.cluster import Host, Wiring, load_cluster
from simcluster.errors import PlanError

_CARDS = re.compile(r"(\d+)\s*x\s*[A-Za-z ]*?(\d+)", re.IGNORECASE)
"""``8x HDR200 InfiniBand``, ``8x EDR IB 100Gb/s per node``, ``8x200Gb/s``: so many cards of so many Gb/s."""

_PER_DEVICE = re.compile(r"(\d+)\s*Gb/s per (?:GPU|NPU|device)", re.IGNORECASE)
_OF_A_HOST = re.compile(r"(\d+)\s*Gb/s", re.IGNORECASE)


def stated_cluster(run: MeasuredRun, entry: HardwareSpec | None) -> dict[str, Any]:
    """The ``cluster:`` section of a run; ``entry`` is its hardware, if not that of the table.

    PlanError where the hardware is not known, or the devices do not fill hosts.
    """
    hardware = run.words["hardware"]
    stated = run.words.get("inter_link", "") if entry is None else ""
    entry = entry or hardware_of(hardware, run.words.get("notes", ""), stated)
    if entry is None:
        raise PlanError(f"no host of the catalog matches the hardware '{hardware}'")
    devices, host = run.counts["num_devices"], load_cluster(entry.cluster).host
    per_host = min(run.count("devices_per_host", host.num_devices), host.num_devices)
    written: dict[str, Any] = {"use": entry.cluster}
    if entry.device:
        written["device"] = dict(entry.device)
    if devices >= per_host and per_host == host.num_devices:
        if devices % per_host:
            raise PlanError(f"{devices} devices do not fill hosts of {per_host}")
        hosts = devices // per_host
    else:
        hosts = math.ceil(devices / per_host)
        if devices % hosts:
            raise PlanError(f"{devices} devices do not spread evenly over {hosts} hosts")
        written["devices"] = devices // hosts
        written |= _part_of(host, devices // hosts)
        written["network"] = {"nics": min(host.network.nics, devices // hosts)}
    if hosts > 1 and (cards := _cards(host, devices // hosts, stated)):
        written["network"] = cards
    if host.pod is not None and (pods := math.ceil(hosts / host.num_hosts_per_pod)) > 1 and hosts % pods == 0:
        # A scheduler gives a job equally many hosts of each (Slurm's --segment): no group of ranks straddles.
        written["pod"] = {"hosts": hosts // pods}
    changes = {"changes": [dict(change) for change in entry.changes]} if entry.changes else {}
    if set(written) == {"use"}:
        return {"use": entry.cluster, "hosts": hosts, **changes}
    return {"host": written, "hosts": hosts, **changes}


def _part_of(host: Host, num_devices: int) -> dict[str, Any]:
    """What differs of a host of which only the first devices are used: islands that are no longer whole."""
    island, fabric = host.island, host.fabric
    if island is None or num_devices % island.num_devices == 0:
        return {}
    if fabric.wiring is not Wiring.PARTIAL_MESH:
        return {"island": {"devices": num_devices}}
    if num_devices == 1:
        return {"island": None, "fabric": {"wiring": "switch", "pairs": None, "links": None}}
    pairs = [[*pair] for pair in fabric.pairs if max(pair[:2]) < num_devices]
    return {"island": None, "fabric": {"pairs": pairs}}


def _cards(host: Host, num_devices: int, stated: str) -> dict[str, Any]:
    """The network cards of a host as a row states them; nothing where the catalog has as much.

    Fewer or more of the catalog's cards, if these make up the rate; otherwise as many slower or faster ones.
    """
    rate, network = host_rate(stated, num_devices), host.network
    card_rate = network.link.bandwidth * 8
    if rate is None or rate == card_rate * network.nics:
        return {}
    count = rate / card_rate
    if count >= 1 and count.is_integer() and num_devices % count == 0:
        return {"nics": int(count)}
    cards = min(network.nics, num_devices)
    return {"nics": cards, "bandwidth": f"{rate / cards / 1e9:g} Gbps"}


def host_rate(words: str, num_devices: int) -> float | None:
    """The bandwidth of all cards of a host of ``num_devices``, one way, in bit/s; None if not stated."""
    if match := _CARDS.search(words):
        return int(match[1]) * int(match[2]) * 1e9
    if match := _PER_DEVICE.search(words):
        return int(match[1]) * num_devices * 1e9
    if match := _OF_A_HOST.search(words):
        return int(match[1]) * 1e9
    return None
