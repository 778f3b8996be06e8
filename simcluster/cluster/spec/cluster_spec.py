"""The scenario's ``cluster:`` section."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import PrivateAttr, ValidationInfo, model_validator

from simcluster.cluster.allocation import AllocatedSite, Allocation, MapBy, allocation_formats
from simcluster.cluster.cluster import Assumption, Cluster
from simcluster.cluster.device import PowerModel
from simcluster.cluster.host import Host
from simcluster.cluster.interconnect import Storage
from simcluster.cluster.spec.assumed_figures import assumptions_of
from simcluster.cluster.spec.device_changes import MOST_DEVICES, AnyChange, ChangeSpec, device_speeds
from simcluster.cluster.spec.host_group_spec import HostGroupSpec
from simcluster.cluster.spec.host_spec import HostSpec
from simcluster.cluster.spec.index_lists import IndexList
from simcluster.cluster.spec.network_choice import AnyNetwork
from simcluster.cluster.spec.price import Price, PriceRate
from simcluster.cluster.topology import HostGroup, LinkChangeSpec
from simcluster.document import (
    Bandwidth,
    Duration,
    Figure,
    Name,
    PositiveInt,
    Refused,
    Section,
    text_of,
)
from simcluster.errors import ScenarioError


class StorageSpec(Section):
    """Storage shared by all hosts, on a network of its own; it can hold input data and checkpoints."""

    read: Figure[Bandwidth]
    """Read bandwidth of all hosts together."""

    write: Figure[Bandwidth]
    """Write bandwidth of all hosts together."""

    host: Figure[Bandwidth]
    """Bandwidth of one host, for reading and for writing."""

    latency: Figure[Duration] | None = None
    """Time to the first byte; zero if absent."""

    def build(self) -> Storage:
        """The storage."""
        latency = self.latency.value if self.latency else 0.0
        return Storage(self.read.value, self.write.value, self.host.value, latency)


_NOT_FOR_ALL = {
    "network": "write it in the groups",
    "storage": "storage is shared by one group only",
    "own_hosts": "a part of a cluster is one of equal hosts",
    "rank_table": "its hosts are equal",
    "hostfile": "its hosts are equal",
    "map_by": "ranks go group by group",
}
"""What is not said of several groups together, and why."""


class ClusterSpec(Section):
    """The ``cluster:`` section: ``{use: dgx-h100, hosts: 32}``, or ``{host: {...}, hosts: 4}``.

    With hosts of several kinds: ``{groups: [{use: dgx-h100, hosts: 2}, {use: atlas-800t-a2, hosts: 1}]}``.
    Ranks are numbered group by group. The groups are joined at the roots of their networks by non-blocking
    switches.

    From a launcher's file: ``{use: atlas-800t-a2, rank_table: hccl.json}``. The file lists hosts, devices and
    ranks, and decides which host and device runs each rank. In the network, hosts are ordered by name.
    """

    use: Name | None = None
    """A host of the catalog."""

    host: HostSpec | None = None
    """The host, written inline or as a catalog host with changes; instead of ``use``."""

    hosts: PositiveInt | None = None
    """Number of hosts."""

    groups: tuple[HostGroupSpec, ...] = ()
    """Hosts of several kinds, instead of ``use`` or ``host``: one entry per kind."""

    rank_table: Name | None = None
    """Path of a rank table (hccl.json), relative to the scenario; Ascend only."""

    hostfile: Name | None = None
    """Path of an Open MPI hostfile, relative to the scenario: one rank per slot."""

    msjob: Name | None = None
    """Path of an MSJob of ms-operator, relative to the scenario: one rank per Worker."""

    map_by: MapBy | None = None
    """How ranks of a hostfile or an MSJob are assigned to hosts: by slot (the default) or by node."""

    network: AnyNetwork | None = None
    """How the network cards are connected; if absent, as the host's file says."""

    storage: StorageSpec | None = None
    """Storage shared by all hosts."""

    own_hosts: IndexList | None = None
    """The hosts that the scenario itself runs on, such as ``0-31``; the others are idle or run tenants.

    If absent: all hosts; with tenants, the first hosts that its mesh needs.
    """

    changes: tuple[AnyChange, ...] = ()
    """Devices that are slower or faster than their file says, and changes of links. Several changes of one
    device multiply."""

    price: Price | None = None
    """Price of a device, such as ``2.50 USD per device-hour``, used to compare plans."""

    _allocation: Allocation | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _has_hosts(self, info: ValidationInfo) -> ClusterSpec:
        if self.groups:
            self._check_groups()
            if self.msjob is not None:
                self._allocation = self._read((info.context or {}).get("folder") or Path())
        elif (self.use is None) == (self.host is None):
            raise Refused("name a host with 'use: dgx-h100', or write it under 'host'; one of the two")
        elif self.file is not None or self.map_by is not None:
            self._allocation = self._read((info.context or {}).get("folder") or Path())
        elif self.hosts is None:
            raise Refused("'hosts' is missing", path="hosts")
        else:
            self.written  # noqa: B018 - a group checks itself
        if self.changes:
            self._check_changes()
        return self

    @property
    def file(self) -> tuple[str, str] | None:
        """The format of the launcher's file that its ranks are from, and the file; None if there is none."""
        named = [(key, path) for key in allocation_formats() if (path := getattr(self, key, None))]
        return named[0] if named else None

    @property
    def allocation(self) -> Allocation | None:
        """What that file says."""
        return self._allocation

    def allocated(self, cluster: Cluster) -> Allocation:
        """Hosts and devices of the ranks of the cluster that it makes: as the launcher's file has them, or as
        they are numbered, with made-up addresses.
        """
        if self._allocation is not None:
            return self._allocation
        ranks = np.arange(cluster.num_devices)
        hosts = cluster.hosts_of(ranks)
        pods = cluster.pods_of(ranks) if self.site.hosts_per_pod and not self.groups else None
        if not self.groups:
            return Allocation.of(hosts, cluster.devices_of(ranks) % self.devices_per_host, pods)
        _, first, number = np.unique(hosts, return_index=True, return_inverse=True)
        return Allocation.of(hosts, ranks - first[number], pods)

    @property
    def site(self) -> AllocatedSite:
        """The hardware as launchers' files are checked against it."""
        host = HostGroupSpec(use=self.use, host=self.host, hosts=1).made if not self.groups else self.hardware
        size = host.devices.value
        sizes = [count for group in self.groups for count in [group.made.devices.value] * group.hosts]
        return AllocatedSite(
            host=host.use or host.title,
            device=host.device.use or host.device.title,
            kind=host.device.kind,
            devices_per_host=size,
            devices_per_island=host.island.devices.value if host.island else size,
            hosts_per_pod=host.pod.hosts.value if host.pod else 0,
            num_hosts=self.hosts,
            sizes=tuple(sizes),
        )

    def _read(self, folder: Path) -> Allocation:
        """The hosts and ranks of the launcher's file; Refused, or ScenarioError with a place in that file."""
        named = [key for key in allocation_formats() if getattr(self, key, None)]
        if len(named) != 1:
            if not named:
                raise Refused("ranks are assigned to the hosts of a hostfile or an MSJob", path="map_by")
            raise Refused(f"'{named[0]}' says where ranks are already; write one of the two", path=named[1])
        (key,) = named
        form = allocation_formats()[key]()
        if self.own_hosts is not None:
            raise Refused(f"'{key}' names the hosts already", path="own_hosts")
        if self.map_by is not None and not form.deals:
            raise Refused(f"a {form.title} says itself which rank has which device", path="map_by")
        name = getattr(self, key)
        try:
            text = text_of(folder / name)
        except ScenarioError as error:
            problem = error.problems[0]
            raise Refused(f"{problem.where}: {problem.message}", path=key) from None
        return form.read(text, str(folder / name), self.site, self.map_by or MapBy.SLOT)

    @property
    def rate(self) -> PriceRate | None:
        """The price as numbers, if there is one."""
        return None if self.price is None else PriceRate.parse(self.price)

    def _check_groups(self) -> None:
        """Refused if something is said twice, or of one group what is to be said of each."""
        for key in ("use", "host", "hosts"):
            if getattr(self, key) is not None:
                raise Refused(
                    f"'groups' names the hosts already; leave '{key}' out or write it as a group", path=key
                )
        for key, hint in _NOT_FOR_ALL.items():
            if getattr(self, key) is not None:
                raise Refused(f"'{key}' is not for all groups: {hint}", path=key)
        for number, group in enumerate(self.groups):
            if len(self.groups) > 1 and not group.is_joinable:
                kind = group.network or group.made.network.fabric
                raise Refused(
                    f"a network of kind {getattr(kind, 'kind', '')} without a single root cannot be joined "
                    "with other groups; use ecmp: ideal or another kind",
                    path=f"groups.{number}.network",
                )
            if len(self.groups) > 1 and group.reduces:
                raise Refused(
                    "a network that reduces is not supported among several groups yet; write the network "
                    "without 'reduces'",
                    path=f"groups.{number}.network",
                )

    @property
    def hardware(self) -> HostSpec:
        """A host, as named or written out: of several groups the first one's."""
        return self.written[0].made

    @property
    def devices_per_host(self) -> int:
        """Devices of each host: of several groups the first one's."""
        return self.hardware.devices.value

    @property
    def num_hosts(self) -> int:
        """Hosts of all groups."""
        return sum(group.hosts for group in self.written)

    @property
    def num_devices(self) -> int:
        """Devices of all hosts; those that a launcher's file gives to ranks, if there is one."""
        if self._allocation is not None:
            return self._allocation.num_ranks
        return sum(group.hosts * group.made.devices.value for group in self.written)

    @property
    def written(self) -> tuple[HostGroupSpec, ...]:
        """The groups of hosts: those written as such, or the one."""
        if self.groups:
            return self.groups
        hosts = self.hosts
        if self._allocation is not None:
            hosts = 1 + max(self._allocation.places(self.site.hosts_per_pod))
        assert hosts is not None
        return (HostGroupSpec(use=self.use, host=self.host, hosts=hosts, network=self.network),)

    @property
    def _devices(self) -> list[range]:
        """The devices of every host."""
        devices: list[range] = []
        for group in self.written:
            size = group.made.devices.value
            first = devices[-1].stop if devices else 0
            devices += [range(first + host * size, first + (host + 1) * size) for host in range(group.hosts)]
        return devices

    @property
    def _powers(self) -> list[PowerModel | None]:
        """What the devices of every host take."""
        return [group.made.device.power_model for group in self.written for _ in range(group.hosts)]

    def _check_changes(self) -> None:
        counts = [group.hosts * group.made.devices.value for group in self.written]
        if (count := sum(counts)) > MOST_DEVICES:
            raise Refused(f"{count:,} devices; some can be changed in at most {MOST_DEVICES:,}", path="hosts")
        devices = self._devices
        for index, change in enumerate(self.changes):
            if not isinstance(change, ChangeSpec):
                continue
            try:
                change.check(devices)
            except Refused as refused:
                inner = refused.problems[0]
                raise Refused(inner.message, path=f"changes.{index}.{inner.path}") from None

    def build(self, seed: int = 0) -> Cluster:
        """The cluster, with the assumed figures it rests on; ``seed`` draws what its changes leave to chance.

        Raises PlanError if the changes of a device multiply to something out of all bounds.
        """
        kinds: list[tuple[HostSpec, Any, Host]] = []
        groups: list[HostGroup] = []
        assumed: dict[Assumption, None] = {}
        for group in self.written:
            spec, network = group.made, group.network
            kind = next((at for at, known in enumerate(kinds) if known[:2] == (spec, network)), len(kinds))
            if kind == len(kinds):
                kinds.append((spec, network, spec.build()))
                assumed |= dict.fromkeys(assumptions_of(spec, spec.use or spec.title))
            groups.append(HostGroup(kinds[kind][2], group.hosts, group.builder, kind))
        if len(kinds) > 1:
            assumed[_LIBRARY] = None
        devices = [change for change in self.changes if isinstance(change, ChangeSpec)]
        changed = device_speeds(devices, self._devices, seed, self._powers) if devices else {}
        storage = self.storage.build() if self.storage else None
        numbered: Iterable[tuple[int, Section]] = enumerate(self.changes)
        links = [(at, change) for at, change in numbered if isinstance(change, LinkChangeSpec)]
        cluster = Cluster(tuple(groups), tuple(assumed), changed, storage).with_links(links)
        if self._allocation is None or self.groups:
            return cluster
        ranks = self._allocation.devices(self.site.devices_per_host, self.site.hosts_per_pod)
        in_order = np.array_equal(ranks, np.arange(cluster.num_devices))
        return cluster if in_order else cluster.with_ranks_on(ranks)


_LIBRARY = Assumption(
    "collectives between kinds of hosts",
    "a library that speaks to all of them, at the slower figures of their own",
    "NCCL and HCCL cannot talk to each other; libraries for several kinds of devices exist, but no published "
    "table of their protocols",
)
