"""The cluster of a run, by what its row says of hardware, hosts and links."""

from __future__ import annotations

import math
from typing import Any

from simcluster.accuracy.hardware import HardwareSpec, hardware_of
from simcluster.accuracy.runs.rows import MeasuredRun
from simcluster.accuracy.stated_network import stated_cards
from simcluster.cluster import Host, Wiring, load_cluster
from simcluster.errors import PlanError


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
    if hosts > 1 and (cards := stated_cards(host, devices // hosts, stated)):
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
    whole = island is None or num_devices % island.num_devices == 0
    if fabric.wiring is not Wiring.PARTIAL_MESH:
        return {} if whole or island is None else {"island": {"devices": num_devices}}
    if whole and all(max(pair[:2]) < num_devices for pair in fabric.pairs):
        return {}
    if num_devices == 1:
        return {"island": None, "fabric": {"wiring": "switch", "pairs": None, "links": None}}
    pairs = [[*pair] for pair in fabric.pairs if max(pair[:2]) < num_devices]
    return {"island": None, "fabric": {"pairs": pairs}}
