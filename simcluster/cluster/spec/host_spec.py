"""What a host file may say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from importlib.resources.abc import Traversable
from typing import Any, ClassVar, Literal, Self

from pydantic import ConfigDict, model_validator

from simcluster.cluster.device import Device
from simcluster.cluster.host import Host, HostKernels, KernelOnCores, Protocol
from simcluster.cluster.interconnect import HostNetwork, Island, Link, ShareByCount, Wiring
from simcluster.cluster.spec.device_spec import DeviceSpec
from simcluster.cluster.spec.link_spec import FabricSpec, IslandSpec, NetworkSpec, PcieSpec, PodSpec
from simcluster.deferred_dataclass import dataclass
from simcluster.document import (
    Bandwidth,
    Bytes,
    CatalogSection,
    Duration,
    Figure,
    Fraction,
    Name,
    NonNegativeInt,
    PositiveInt,
    Refused,
    Section,
    Share,
)
from simcluster.registry import data_files
from simcluster.work import Kernel


class ProtocolSpec(Section):
    """One protocol by which the communication library moves data."""

    base: Duration
    """Fixed time per collective."""

    host_hop: Duration
    """Time per step inside a host, over its closest links; on links of longer latency the difference is
    added. If a scenario changes the latency of a catalog host but not this, it changes by the same amount."""

    network_hop: Duration
    """Time per step between hosts, including the switches on the way; cables of a custom network add their
    latencies. If a scenario changes network latencies of a catalog host but not this, it changes by the same
    amount."""

    host_share: Fraction
    """Share of the fabric's usable bandwidth that it reaches."""

    network_share: Fraction
    """Share of the network's usable bandwidth that it reaches."""

    own: Share = 0.0
    """Time for the part of the data that stays on its rank, which the kernel copies too, as a multiple of the
    time it would take over all of the device's links inside the host."""


HostKernel = Literal["gather_scatter", "optimizer", "elementwise", "reduction"]
"""The kernels that can run on the processors of a host."""


class KernelOnCoresSpec(Section):
    """A memory-bound kernel on one core."""

    row: Duration
    """Time per table row that it looks up, or sorts and sums up."""

    bandwidth: Bandwidth
    """Bandwidth of the core for all other bytes."""


class ProcessorSpec(Section):
    """A host's own processors, and which of its parts are close to which.

    The topology derives its PCIe tree and memories from them; the input pipeline reads and decodes on them.
    """

    model: Figure[Name]
    """Name of the processor."""

    sockets: Figure[PositiveInt]
    """Number of sockets."""

    cores: Figure[PositiveInt] | None = None
    """Cores per socket; without this figure, input is not decoded on the host."""

    numa_nodes: Figure[PositiveInt]
    """NUMA nodes of the host: parts of its memory, each close to some of the cores."""

    numa_of_device: Figure[tuple[NonNegativeInt, ...]] | None = None
    """The NUMA node that each device is close to."""

    memory_bandwidth: Figure[Bandwidth] | None = None
    """Bandwidth of all memory channels of the host together; if absent, as much as PCIe can ask for."""

    between: Figure[Bandwidth] | None = None
    """Usable bandwidth between each two sockets in one direction; if absent, as much as PCIe can ask for."""

    threads: Figure[PositiveInt] | None = None
    """Maximum number of cores that one operator runs on; if absent, all cores of a socket."""

    kernels: dict[HostKernel, Figure[KernelOnCoresSpec]] = {}
    """Speed of kernels of operators that are placed on the host; other operators cannot be placed there, and
    none without ``cores``."""

    def processing(self) -> HostKernels:
        """What kernels take of the cores."""
        if self.cores is None:
            return HostKernels()
        threads = self.threads or self.cores
        kernels = {
            Kernel(name): KernelOnCores(figure.value.row, figure.value.bandwidth)
            for name, figure in self.kernels.items()
        }
        return HostKernels(threads.value, kernels)

    @model_validator(mode="after")
    def _parts_belong_to_sockets(self) -> ProcessorSpec:
        parts, sockets = self.numa_nodes.value, self.sockets.value
        if parts % sockets:
            raise Refused(f"{parts} parts do not spread evenly over {sockets} sockets", path="numa_nodes")
        for part in self.numa_of_device.value if self.numa_of_device else ():
            if part >= parts:
                raise Refused(f"there is no part {part} of {parts}", path="numa_of_device")
        return self


class DiskSpec(Section):
    """A host's local disks, which can hold input data, offloaded data and checkpoints."""

    count: Figure[PositiveInt] | None = None
    """Number of disks."""

    capacity: Figure[Bytes]
    """Capacity of all disks together."""

    read: Figure[Bandwidth] | None = None
    """Read bandwidth of all disks together."""

    write: Figure[Bandwidth] | None = None
    """Write bandwidth of all disks together."""


class HostSpec(CatalogSection):
    """A host: a file of the hosts catalog, or written inline in the cluster section."""

    model_config = ConfigDict(defer_build=False)  # for sections that hold it: they take over what is built

    noun: ClassVar[str] = "host"

    title: Name
    """Display name."""

    device: DeviceSpec
    """Its devices, all of one kind: a name of the catalog, or a device written inline."""

    devices: Figure[PositiveInt]
    """Number of devices."""

    memory: Figure[Bytes]
    """Memory of the host."""

    installed: Figure[PositiveInt] | None = None
    """Number of hosts of the real machine, if this is a specific one; any other number can be simulated."""

    processors: ProcessorSpec | None = None
    """The host's own processors."""

    disks: DiskSpec | None = None
    """The host's local disks."""

    fabric: FabricSpec
    """How its devices are connected."""

    island: IslandSpec | None = None
    """A part of the host that is connected more closely; absent if all devices are connected alike."""

    pod: PodSpec | None = None
    """Hosts whose devices are connected directly, like those of one host; absent if hosts are connected only
    by the network."""

    network: NetworkSpec
    """The connection to other hosts."""

    pcie: PcieSpec | None = None
    """Between each device and the host's memory; absent if the device is the host's processor."""

    library: Literal["nccl", "hccl"] = "nccl"
    """Whose algorithm selection its communication library has; RCCL selects like NCCL."""

    channels: Figure[PositiveInt] | None = None
    """Number of channels in which the library moves data, if known; more channels do not make it faster."""

    collectives: dict[Name, dict[Name, Figure[ProtocolSpec]]]
    """The communication library's protocols by algorithm; ``default`` for algorithms not named here."""

    @model_validator(mode="after")
    def _is_complete(self) -> HostSpec:
        nics, devices = self.network.nics.value, self.devices.value
        if nics > devices and nics % devices:
            raise Refused(f"{nics} cards do not spread evenly over {devices} devices", path="network.nics")
        if self.island and devices % (size := self.island.devices.value):
            raise Refused(
                f"{devices} devices cannot be divided into islands of {size}; "
                "write island: null if there are none",
                path="island.devices",
            )
        self._fits_together()
        for name, part in (("fabric", self.fabric), ("island", self.island), ("pod", self.pod)):
            if part and (lacking := part.lacking(self.device.links)):
                raise Refused(
                    f"'{lacking}' is missing, and the device has no links of its own to take it from",
                    path=name,
                )
        for inner, outer in (("island", "fabric"), ("fabric", "pod")):
            closer, wider = getattr(self, inner), getattr(self, outer)
            if closer and wider and closer.latency.value > wider.latency.value:
                raise Refused(f"the latency is longer than that of {outer}, which is wider", path=inner)
        if not self.collectives.get("default"):
            raise Refused("the protocols of 'default' are missing", path="collectives")
        if empty := [name for name, protocols in self.collectives.items() if not protocols]:
            raise Refused("give at least one protocol", path=f"collectives.{empty[0]}")
        return self

    def _changed_latencies(self) -> _ChangedLatencies:
        if self.use is None or self.use not in HostSpec.entries():
            return _ChangedLatencies()
        entry = HostSpec.load(self.use)
        closest, usual = self.island or self.fabric, entry.island or entry.fabric
        return _ChangedLatencies(
            closest.latency.value - usual.latency.value,
            self.network.latency.value - entry.network.latency.value,
            _switch_latency(self.network) - _switch_latency(entry.network),
            entry.collectives,
        )

    def _fits_together(self) -> None:
        """Refused if the wiring speaks of parts that the host does not have."""
        devices = self.devices.value
        switched = self.island is not None and self.island.wiring is Wiring.SWITCH
        if self.fabric.wiring is Wiring.TRUNK and not switched:
            raise Refused(
                "a trunk joins islands with a switch; write them under island", path="fabric.wiring"
            )
        if self.island and self.island.wiring is Wiring.TRUNK:
            raise Refused("a trunk joins islands; it is not inside one", path="island.wiring")
        for name, part in (("fabric", self.fabric), ("island", self.island)):
            if part and part.over_pcie and part.over_pcie.value and not self.pcie:
                raise Refused("the host has no 'pcie'", path=f"{name}.over_pcie")
        placed = self.processors.numa_of_device if self.processors else None
        if self.pcie and placed and len(placed.value) < devices:
            raise Refused(
                f"processors.numa_of_device says what {len(placed.value)} of {devices} devices are near to",
                path="devices",
                hint=f"write it for all {devices}, or null if they spread evenly",
            )
        if self.fabric.wiring is Wiring.PARTIAL_MESH:
            joined = {end for one, other, _ in self._pairs() for end in (one, other)}
            if joined != set(range(devices)):
                raise Refused(f"'pairs' joins {len(joined)} devices of {devices}", path="fabric")
            reached = {0}
            for _ in range(devices):
                near = [{one, other} for one, other, _ in self._pairs() if reached & {one, other}]
                reached = reached.union(*near)
            if len(reached) < devices:
                lost = min(set(range(devices)) - reached)
                raise Refused(f"no links lead from device 0 to device {lost}", path="fabric.pairs")

    def _pairs(self) -> tuple[tuple[int, int, int], ...]:
        return self.fabric.pairs.value if self.fabric.pairs else ()

    def completed(self) -> Self:
        """The same with every figure of the links between its devices, also those that the device gives."""
        parts = {"fabric": self.fabric, "island": self.island, "pod": self.pod}
        own = self.device.links
        return self.model_copy(update={name: part.completed(own) for name, part in parts.items() if part})

    @classmethod
    def entries(cls) -> Mapping[str, Traversable]:
        """The shipped hosts."""
        return data_files("simcluster.cluster.hosts")

    @classmethod
    def hint(cls, name: str) -> str:
        """Of a device's name the hosts that have it."""
        if name not in DeviceSpec.entries():
            return super().hint(name)
        having = [host for host in cls.entries() if name in _names(cls.entry(host)["device"])]
        hosts = f"hosts that have it: {', '.join(having)}" if having else "no host of the catalog has it"
        return f"{name} is a device; {hosts}"

    def build(self) -> Host:
        """The host."""
        own = self.device.links
        bundle = max(1, self.network.nics.value // self.devices.value)
        card = self.network.build()
        port = Link(card.bandwidth * bundle, card.efficiency, card.latency)
        sockets = self.processors.sockets.value if self.processors else 1
        near = self.processors.numa_of_device if self.processors else None
        shared = self.pcie.devices_per_switch if self.pcie else None
        device = self.device.build()
        changed = self._changed_latencies()
        return Host(
            name=self.use or self.title,
            device=device,
            num_devices=self.devices.value,
            fabric=self.fabric.build(own),
            network=HostNetwork(
                self.network.nics.value // bundle,
                port,
                bool(self.network.on_device and self.network.on_device.value),
                _switch_latency(self.network),
                ShareByCount(self.network.by_hosts.value if self.network.by_hosts else ()),
                changed.switch,
            ),
            pcie=self.pcie.build() if self.pcie else None,
            memory=round(self.memory.value),
            library=self.library,
            channels=self.channels.value if self.channels else None,
            protocols={
                algorithm: tuple(
                    changed.protocol(algorithm, name, figure.value) for name, figure in protocols.items()
                )
                for algorithm, protocols in self.collectives.items()
            },
            island=Island(self.island.devices.value, self.island.build(own)) if self.island else None,
            pod=self.pod.build(own) if self.pod else None,
            sockets=sockets,
            numa_nodes=self.processors.numa_nodes.value if self.processors else 1,
            numa_of_device=near.value if near else (),
            cores=self.processors.cores.value if self.processors and self.processors.cores else 0,
            devices_per_switch=shared.value if shared else 1,
            memory_bandwidth=_rate(self.processors.memory_bandwidth if self.processors else None),
            between_sockets=_rate(self.processors.between if self.processors else None),
            disk_read=_rate(self.disks.read if self.disks else None),
            disk_write=_rate(self.disks.write if self.disks else None),
            processing=_processing(self.processors, device),
            disk_capacity=round(self.disks.capacity.value) if self.disks else 0,
        )


def _switch_latency(network: NetworkSpec) -> float:
    return network.switch_latency.value if network.switch_latency else 0.0


def _processing(processors: ProcessorSpec | None, device: Device) -> HostKernels:
    """What kernels take of the cores of a host; where its sockets are the devices, those of these."""
    if processors is None:
        return HostKernels()
    if device.kind == "cpu" and processors.cores and not processors.kernels:
        return HostKernels.of_sockets(device, processors.cores.value)
    return processors.processing()


def _rate(figure: Figure[Bandwidth] | None) -> float:
    return figure.value if figure else 0.0


@dataclass(frozen=True)
class _ChangedLatencies:
    """What a scenario adds to latencies [s] of a host of the catalog, and that host's protocols.

    The hops of these protocols were measured with the catalog's latencies, so a hop that the scenario leaves
    as it is grows by what the scenario adds: ``inside`` the host, over its ``network``, per ``switch`` more.
    """

    inside: float = 0.0
    network: float = 0.0
    switch: float = 0.0
    known: Mapping[str, Mapping[str, Figure[ProtocolSpec]]] = field(default_factory=dict)

    def protocol(self, algorithm: str, name: str, spec: ProtocolSpec) -> Protocol:
        """The protocol of an algorithm as this host has it."""
        measured = self.known.get(algorithm, {}).get(name)
        hops = []
        for key, added in (("host_hop", self.inside), ("network_hop", self.network)):
            hop: float = getattr(spec, key)
            moves = measured is not None and getattr(measured.value, key) == hop
            hops.append(max(0.0, hop + added) if moves else hop)
        shares = spec.host_share, spec.network_share
        return Protocol(name, spec.base, (hops[0], hops[1]), shares, spec.own)


def _names(device: Any) -> tuple[Any, ...]:
    """The catalog's name of a device as a host has it: the name itself, or one with changes."""
    return (device,) if isinstance(device, str) else (device.get("use"),)
