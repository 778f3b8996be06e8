"""A cluster small enough for values: hosts shrink so that the axes that crossed hosts still do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from simcluster.cluster import Cluster, ClusterSpec, HostGroupSpec, HostSpec
from simcluster.document import validate_data
from simcluster.layout import Mesh
from simcluster.scenario import Scenario


def small_cluster(scenario: Scenario, before: Mesh, after: Mesh) -> tuple[Cluster, ClusterSpec]:
    """A cluster for the small mesh: the axes that crossed hosts still do, and as few others as possible."""
    groups = scenario.spec.cluster.written
    if len(groups) > 1:
        spec = validate_data({"groups": _groups(groups, before, after)}, ClusterSpec)
        return spec.build(), spec
    host = groups[0].made
    ranks = after.num_ranks
    hosts = scenario.cluster.hosts_of(np.arange(before.num_ranks))
    wanted = {axis for axis, _ in before.axes if np.ptp(hosts[before.groups((axis,))], axis=1).any()}
    best = max(
        (size for size in range(1, min(ranks, host.devices.value) + 1) if ranks % size == 0),
        key=lambda size: (wanted <= _crossing(after, size), -len(_crossing(after, size) - wanted), size),
    )
    spec = validate_data({"host": _host(host, best), "hosts": ranks // best}, ClusterSpec)
    return spec.build(), spec


def _groups(groups: Sequence[HostGroupSpec], before: Mesh, after: Mesh) -> list[dict[str, Any]]:
    """Groups that begin at the same part of the ranks; those of parameter servers, if they have groups of
    their own, shrink by themselves.
    """
    counts = [group.hosts * group.made.devices.value for group in groups]
    own = [end <= before.num_on_axes for end in np.cumsum(counts).tolist()]
    if before.off_axes and sum(count for count, is_own in zip(counts, own, strict=True) if is_own) == (
        before.num_on_axes
    ):
        workers = sum(own)
        return [
            *_shares(groups[:workers], before.num_on_axes, after.num_on_axes),
            *_shares(groups[workers : workers + after.off_axes], before.off_axes, after.off_axes),
        ]
    return list(_shares(groups, before.num_ranks, after.num_ranks))


def _shares(groups: Sequence[HostGroupSpec], before: int, ranks: int) -> Iterator[dict[str, Any]]:
    """Groups of so many ranks together, each of one rank at least, on two hosts if it had more than one and
    can be divided.
    """
    counts = [group.hosts * group.made.devices.value for group in groups]
    left = len(groups)
    start, passed = 0, 0
    for group, count in zip(groups, counts, strict=True):
        passed, left = passed + count, left - 1
        end = min(max(round(passed * ranks / before), start + 1), ranks - left)
        size, start = end - start, end
        hosts = 2 if group.hosts > 1 and size % 2 == 0 else 1
        while size // hosts > group.made.devices.value or size % hosts:
            hosts += 1
        yield {"host": _host(group.made, size // hosts), "hosts": hosts}


def _host(host: HostSpec, devices: int) -> dict[str, Any]:
    """A host with fewer devices, as a file would have it."""
    written: dict[str, Any] = host.model_dump(mode="json", exclude={"use"}, exclude_none=True)
    written["devices"] = devices
    if host.island and devices % host.island.devices.value:
        del written["island"]
    written["network"]["nics"] = min(host.network.nics.value, devices)
    return written


def _crossing(mesh: Mesh, devices_per_host: int) -> set[str]:
    """The axes along which some group lies on several hosts."""
    return {axis for axis, _ in mesh.axes if np.ptp(mesh.groups((axis,)) // devices_per_host, axis=1).any()}
