"""The inside of a host as a small graph: places, and wires between them, the same in every host."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from simcluster.cluster.host.host import Host
from simcluster.cluster.interconnect import HostFabric, Link, Storage, Wiring
from simcluster.deferred_dataclass import dataclass

CLOSE, OUTER, CARD, TREE, TRUNK, SOCKET, MEMORY, OUTSIDE_HOST = 1, 3, 1, 2, 4, 1, 1, 100
"""What a step over a wire costs when the way is chosen: device links before the PCIe tree, no way through a
network card and back."""


CORE = 1e9
"""What one core carries on the link that stands for the work of a socket's cores: nanoseconds in a second."""

SHARED = ("storage.entry", "storage")
"""The places that all hosts share: where their storage is connected, and the storage."""


@dataclass(frozen=True, slots=True)
class Wire:
    """One directed link of every host."""

    pattern: str
    """The name of its family, with ``{}`` for the host (without it the link is one for all hosts) and ``{}``
    for its label there."""
    label: str
    """Which one of its family on the host it is."""
    tail: str
    """The place that it leads from."""
    head: str
    """The place that it leads to."""
    rate: float
    """Bytes/s."""
    latency: float
    """Seconds."""
    cost: int
    """What it counts when a way is chosen."""
    source: str
    """Which figure of a document ``rate`` comes from."""


@dataclass(slots=True)
class HostGraph:
    """Places of a host by name, devices first, and its wires.

    ``gate`` is the switch to the other hosts of a pod (none without pods), ``cards`` are the network cards.
    """

    places: list[str] = field(default_factory=list)
    wires: list[Wire] = field(default_factory=list)
    gate: str = ""
    cards: list[str] = field(default_factory=list)

    def join(self, one: str, other: str, out: Wire, back: Wire) -> None:
        """Adds two places, where they are new, and the wires between them."""
        for place in (one, other):
            if place not in self.places:
                self.places.append(place)
        self.wires += [out, back]

    def lead(self, pattern: str, label: str, ends: tuple[str, str], rate: float, source: str) -> None:
        """Adds a wire to a place of its own, without latency."""
        self.places.append(ends[1])
        self.wires.append(Wire(pattern, label, *ends, rate, 0.0, MEMORY, source))

    def both_ways(
        self, stem: str, label: str, one: str, other: str, link: Link, cost: int, source: str
    ) -> None:
        """Adds ``stem.out`` from one place to the other and ``stem.in`` back, which share its latency."""
        half = link.latency / 2
        out = Wire(f"host.{{}}.{stem}.out", label, one, other, link.rate, half, cost, source)
        back = Wire(f"host.{{}}.{stem}.in", label, other, one, link.rate, half, cost, source)
        self.join(one, other, out, back)


def build_host_graph(host: Host, storage: Storage | None = None) -> HostGraph:
    """The graph of a host, with its way to shared storage if there is any."""
    graph = HostGraph([device_place(place) for place in range(host.num_devices)])
    _device_links(graph, host)
    _pod(graph, host)
    _tree(graph, host)
    _cards(graph, host)
    if storage:
        _storage(graph, host, storage)
    return graph


def device_place(place: int) -> str:
    """The place of a device."""
    return f"device.{place}"


def _device_links(found: HostGraph, host: Host) -> None:
    everyone = list(range(host.num_devices))
    island, outer = host.island, host.fabric
    if island is None or outer.pairs:
        _fabric(found, host, outer, everyone, "switch", CLOSE, "host.fabric")
        return
    firsts = range(0, host.num_devices, island.num_devices)
    for number, first in enumerate(firsts):
        members = everyone[first : first + island.num_devices]
        _fabric(found, host, island.fabric, members, f"switch.{number}", CLOSE, "host.island")
    if outer.wiring is not Wiring.TRUNK:
        _fabric(found, host, outer, everyone, "switch", OUTER, "host.fabric")
        return
    latency = outer.link.latency - island.fabric.link.latency
    trunk = Link(outer.link.bandwidth, outer.link.efficiency, max(0.0, latency))
    for one in range(len(firsts)):
        for other in range(one + 1, len(firsts)):
            ends = f"switch.{one}", f"switch.{other}"
            _pair(found, outer.name, (f"{one}-{other}", f"{other}-{one}"), ends, trunk, CLOSE, "host.fabric")


def _fabric(
    found: HostGraph, host: Host, fabric: HostFabric, members: list[int], switch: str, cost: int, source: str
) -> None:
    if fabric.over_pcie:
        for behind in sorted({host.switch_of(member) for member in members}):
            stem = f"pcie.{{}}.{fabric.name}"
            found.both_ways(stem, str(behind), f"pcie.{behind}", switch, fabric.link, cost, source)
        return
    if fabric.wiring is Wiring.SWITCH:
        for member in members:
            stem = f"device.{{}}.{fabric.name}"
            found.both_ways(stem, str(member), device_place(member), switch, fabric.link, cost, source)
        return
    for one, other, width in _pairs(fabric, len(members)):
        a, b = members[one], members[other]
        link = Link(fabric.link.bandwidth * width, fabric.link.efficiency, fabric.link.latency)
        _pair(
            found,
            fabric.name,
            (f"{a}-{b}", f"{b}-{a}"),
            (device_place(a), device_place(b)),
            link,
            cost,
            source,
        )


def _pair(
    found: HostGraph,
    name: str,
    labels: tuple[str, str],
    ends: tuple[str, str],
    link: Link,
    cost: int,
    source: str,
) -> None:
    """Joins two places by a link each way, which is called after both."""
    pattern = f"host.{{}}.{name}.{{}}"
    there = Wire(pattern, labels[0], ends[0], ends[1], link.rate, link.latency, cost, source)
    back = Wire(pattern, labels[1], ends[1], ends[0], link.rate, link.latency, cost, source)
    found.join(*ends, there, back)


def _pairs(fabric: HostFabric, size: int) -> Iterator[tuple[int, int, int]]:
    """Pairs that are joined, and by how many links."""
    if fabric.wiring is Wiring.PARTIAL_MESH:
        yield from fabric.pairs
    else:
        yield from ((one, other, 1) for one in range(size) for other in range(one + 1, size))


def _pod(found: HostGraph, host: Host) -> None:
    """The way to other hosts of the pod: the switch itself, a trunk out of it, or ports of the devices."""
    if host.pod is None:
        return
    port = host.pod.link
    if host.shares_pod_switch:
        found.gate = "switch"
    elif host.fabric.wiring is Wiring.SWITCH:
        found.gate = "pod"
        trunk = Link(
            port.bandwidth * host.num_devices,
            port.efficiency,
            max(0.0, port.latency - host.fabric.link.latency),
        )
        found.both_ways("pod", "", "switch", "pod", trunk, CLOSE, "host.pod")
    else:
        found.gate = "pod"
        for member in range(host.num_devices):
            found.both_ways(
                "device.{}.pod", str(member), device_place(member), "pod", port, CLOSE, "host.pod"
            )


def _tree(found: HostGraph, host: Host) -> None:
    """The PCIe tree: device - switch - socket - memory; sockets joined with one another."""
    if host.pcie is None:
        _processors(found, host)
        return
    lane = Link(host.pcie.bandwidth, host.pcie.efficiency, 0.0)
    for member in range(host.num_devices):
        switch = f"pcie.{host.switch_of(member)}"
        found.both_ways("device.{}.pcie", str(member), device_place(member), switch, lane, TREE, "host.pcie")
    roots: dict[str, str] = {}
    for member in range(host.num_devices):
        roots.setdefault(f"pcie.{host.switch_of(member)}", f"socket.{host.socket_of_device(member)}")
    for switch, socket in roots.items():
        label = switch.partition(".")[2]
        found.both_ways("pcie.{}", label, switch, socket, lane, TRUNK, "host.pcie")
    _sockets(found, host)


def _processors(found: HostGraph, host: Host) -> None:
    """Where sockets are the devices: the memory of each, the work of its cores, and the disks."""
    if not host.cores or host.device.kind != "cpu":
        return
    _disks(found, host, device_place(0))
    memory = Link(host.device.memory_bandwidth, 1.0, 0.0)
    source = "device.memory_bandwidth"
    devices = {host.socket_of_device(number): device_place(number) for number in range(host.num_devices)}
    for part in range(host.numa_nodes):
        device = devices.get(host.socket_of_numa(part), device_place(0))
        found.both_ways("memory.{}", str(part), f"memory.{part}", device, memory, MEMORY, source)
    for socket in range(host.sockets):
        place, device = f"cores.{socket}", devices.get(socket, device_place(0))
        found.both_ways("cores.{}", str(socket), place, device, memory, MEMORY, source)
        ends = place, f"work.{socket}"
        found.lead("host.{}.work.{}", str(socket), ends, host.cores * CORE, "host.processors.cores")


def _sockets(found: HostGraph, host: Host) -> None:
    """What is at the sockets: one another, memory, cores and disks. What is not said is no bottleneck."""
    assert host.pcie is not None
    asked = host.pcie.rate * host.num_devices
    between = Link(host.between_sockets or asked, 1.0, 0.0)
    for one in range(host.sockets):
        for other in range(one + 1, host.sockets):
            ends = f"socket.{one}", f"socket.{other}"
            labels = f"{one}-{other}", f"{other}-{one}"
            _pair(found, "sockets", labels, ends, between, SOCKET, "host.processors.between")
    source = "host.processors.memory_bandwidth"
    said = host.memory_bandwidth
    # All devices may be beside one NUMA node of several.
    memory = Link(said / host.numa_nodes if said else asked, 1.0, 2 * host.pcie.latency)
    for part in range(host.numa_nodes):
        socket = f"socket.{host.socket_of_numa(part)}"
        found.both_ways("memory.{}", str(part), f"memory.{part}", socket, memory, MEMORY, source)
    if said or host.cores:
        cores = Link(said / host.sockets if said else asked, 1.0, 0.0)
        for number in range(host.sockets):
            place, socket = f"cores.{number}", f"socket.{number}"
            found.both_ways("cores.{}", str(number), place, socket, cores, MEMORY, source)
    if host.cores:
        for number in range(host.sockets):
            ends = f"cores.{number}", f"work.{number}"
            found.lead("host.{}.work.{}", str(number), ends, host.cores * CORE, "host.processors.cores")
    _disks(found, host, "socket.0")


def _disks(found: HostGraph, host: Host, at: str) -> None:
    """The disks, if they say how fast they are, at the first socket."""
    if not host.disk_read or not host.disk_write:
        return
    ends = "disks", at
    out, into = (
        Wire(f"host.{{}}.disks.{way}", "", *along, rate, 0.0, MEMORY, "host.disks")
        for way, along, rate in (("out", ends, host.disk_read), ("in", ends[::-1], host.disk_write))
    )
    found.join(*ends, out, into)


def _storage(found: HostGraph, host: Host, storage: Storage) -> None:
    """The way to shared storage, from the first socket or, without one, the first device."""
    at = "socket.0" if host.pcie else device_place(0)
    card = Link(storage.host, 1.0, storage.latency)
    found.both_ways("storage", "", at, SHARED[0], card, OUTSIDE_HOST, "storage")
    into = Wire("storage.in", "", *SHARED, storage.write, 0.0, OUTSIDE_HOST, "storage")
    out = Wire("storage.out", "", *SHARED[::-1], storage.read, 0.0, OUTSIDE_HOST, "storage")
    found.join(*SHARED, into, out)


def _cards(found: HostGraph, host: Host) -> None:
    """Network cards: beside the PCIe switch of their devices, or on the devices themselves."""
    card, devices = host.network.link, host.num_devices
    for nic in range(host.network.nics):
        beside = [member for member in range(devices) if member * host.network.nics // devices == nic]
        place = f"nic.{nic}"
        if host.pcie and not host.network.on_device:
            switches = {host.switch_of(member) for member in beside}
            socket = f"socket.{host.socket_of_device(beside[0])}"
            at = socket if len(switches) > 1 else f"pcie.{min(switches)}"
        elif len(beside) == 1:
            at = device_place(beside[0])
        else:
            at = f"io.{nic}"
            lane = Link(card.bandwidth, card.efficiency, 0.0)
            for member in beside:
                found.both_ways(
                    "device.{}.io", str(member), device_place(member), at, lane, CARD, "host.network"
                )
        found.both_ways("nic.{}", str(nic), at, place, card, OUTSIDE_HOST, "host.network")
        found.cards.append(place)
