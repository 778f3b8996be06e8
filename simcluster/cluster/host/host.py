"""A host: equal devices, the fabric between them, and its way to the network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from simcluster.cluster.device import Device
from simcluster.cluster.host.processors import HostKernels
from simcluster.cluster.interconnect import HostFabric, HostNetwork, Island, Link, Pod, Wiring


@dataclass(frozen=True, slots=True)
class Protocol:
    """One way in which a communication library moves data under an algorithm.

    ``base``: seconds once per collective; ``hops``: seconds per step that crosses a level; ``shares``: the
    part of the usable bandwidth that the protocol reaches. Both are indexed by Level. The hop inside a host
    is that over its closest links; a link of longer latency adds the difference. ``own``: the time for the
    part of the data that stays on its rank, in units of what it would take over all links of the device.
    """

    name: str
    base: float
    hops: tuple[float, float]
    shares: tuple[float, float]
    own: float = 0.0

    def combined(self, other: Protocol) -> Protocol:
        """The protocol between hosts of two kinds: every figure the slower of the two."""
        return Protocol(
            self.name if self.name == other.name else f"{self.name}+{other.name}",
            max(self.base, other.base),
            (max(self.hops[0], other.hops[0]), max(self.hops[1], other.hops[1])),
            (min(self.shares[0], other.shares[0]), min(self.shares[1], other.shares[1])),
            max(self.own, other.own),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Host:
    """A server with ``num_devices`` equal devices."""

    name: str
    """What the catalog calls it."""
    device: Device
    """Each of its devices."""
    num_devices: int
    """How many there are."""
    fabric: HostFabric
    """The links between them."""
    network: HostNetwork
    """Its network cards."""
    pcie: Link | None
    """The link between a device and the host's memory; None where the device is the processor."""
    memory: int
    """Bytes of the host's memory."""
    protocols: Mapping[str, tuple[Protocol, ...]]
    """What the communication library can choose from, by operation or algorithm; ``default`` for all
    others."""
    island: Island | None = None
    """A part of the host whose devices are joined more closely; most hosts have none."""
    pod: Pod | None = None
    """The hosts that are reached without the network; most hosts have none."""
    sockets: int = 1
    """Processors."""
    numa_nodes: int = 1
    """NUMA nodes of all sockets."""
    numa_of_device: tuple[int, ...] = ()
    """The NUMA node of each device."""
    cores: int = 0
    """Cores of each socket; 0: not known."""
    devices_per_switch: int = 1
    """Devices on each PCIe switch."""
    library: str = "nccl"
    """The communication library: nccl or hccl."""
    channels: int | None = None
    """Channels that the library uses at most; None: as many as there are."""
    memory_bandwidth: float = 0.0
    """Bytes/s of all memory; 0: not known."""
    between_sockets: float = 0.0
    """Bytes/s between sockets, one way; 0: not known."""
    disk_read: float = 0.0
    """Bytes/s that the disks read; 0: not known."""
    disk_write: float = 0.0
    """Bytes/s that the disks write; 0: not known."""
    disk_capacity: int = 0
    """Bytes that the disks hold; 0: not known."""
    processing: HostKernels = HostKernels()
    """What kernels take of its own processors, as far as that is known."""

    def protocols_of(self, algorithm: str, operation: str = "") -> tuple[Protocol, ...]:
        """The protocols of an algorithm here: those of the operation, its own, or the default ones."""
        known = self.protocols
        return known.get(operation) or known.get(algorithm) or known["default"]

    @property
    def joins_all_alike(self) -> bool:
        """Whether every pair of its devices is joined in the same way."""
        return self.island is None and self.fabric.wiring in (Wiring.SWITCH, Wiring.FULL_MESH)

    @property
    def num_hosts_per_pod(self) -> int:
        """Hosts that are joined without the network; 1 where there are no pods."""
        return self.pod.num_hosts if self.pod else 1

    @property
    def shares_pod_switch(self) -> bool:
        """Whether the switch between its devices is the pod's own, which then tells hosts not apart."""
        return (
            self.pod is not None and self.fabric.wiring is Wiring.SWITCH and self.pod.link == self.fabric.link
        )

    def switch_of(self, device: int) -> int:
        """The PCIe switch of a device."""
        return device // self.devices_per_switch

    def socket_of_numa(self, part: int) -> int:
        """The socket that a part of the memory belongs to."""
        return part * self.sockets // self.numa_nodes

    def numa_of(self, device: int) -> int:
        """The part of the memory that a device is near to; where nothing is said, devices spread evenly."""
        if len(self.numa_of_device) < self.num_devices:
            return device * self.numa_nodes // self.num_devices
        return self.numa_of_device[device]

    def socket_of_device(self, device: int) -> int:
        """The socket that a device is near to: that of its memory; without one, devices spread evenly."""
        return self.socket_of_numa(self.numa_of(device))


def slower(hosts: Sequence[Host]) -> Host:
    """The host that collectives over all these hosts are priced on: of every figure the slowest.

    A library that speaks to all of them has any protocol of the one with any of the others; nothing is known
    of its rules, so it takes the fastest. Only links through switches are counted on.
    """
    first, *others = hosts
    if not others:
        return first
    protocols = {}
    for name in dict.fromkeys(name for host in hosts for name in host.protocols):
        protocols_of_all = first.protocols_of(name)
        for host in others:
            protocols_of_all = tuple(
                one.combined(other) for one in protocols_of_all for other in host.protocols_of(name)
            )
        protocols[name] = protocols_of_all
    rate = min(
        host.fabric.rate(host.num_devices) * host.fabric.by_ranks.at(host.num_devices) for host in hosts
    )
    latency = max(host.fabric.link.latency for host in hosts)
    channels = [host.channels for host in hosts]
    same = all(host.library == first.library for host in others)
    return replace(
        first,
        name=" + ".join(host.name for host in hosts),
        num_devices=min(host.num_devices for host in hosts),
        fabric=HostFabric(Wiring.SWITCH, Link(rate, 1.0, latency)),
        network=min((host.network for host in hosts), key=lambda network: network.link.rate),
        protocols=protocols,
        island=None,
        pod=next((host.pod for host in hosts if host.pod), None),
        library=first.library if same else "",
        channels=None if None in channels else min(filter(None, channels)),
    )
