"""The scenario's ``cluster:`` section, and what a host file may say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.resources.abc import Traversable
from typing import Any, ClassVar, Self

from pydantic import model_validator

from simcluster.cluster.changes import MOST_DEVICES, ChangeSpec, speeds
from simcluster.cluster.cluster import Assumption, Cluster
from simcluster.cluster.device_spec import ClockSpec, DeviceSpec
from simcluster.cluster.host import Host, Protocol
from simcluster.cluster.link import Island, Link, Network
from simcluster.cluster.link_spec import FabricSpec, IslandSpec, LinkSpec, NetworkSpec, PodSpec
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


class ProtocolSpec(Section):
    """How the communication library moves data in one of its ways."""

    base: Duration
    """Once per collective."""

    host_hop: Duration
    """Per step inside a host, over its closest links; a link of longer latency adds the difference."""

    network_hop: Duration
    """Per step between hosts."""

    host_share: Fraction
    """Part of the fabric's usable rate that it reaches."""

    network_share: Fraction
    """Part of the network's usable rate that it reaches."""

    own: Share = 0.0
    """Time for the part of the data that stays on its rank, which the kernel copies too, in units of what it
    would take over all links that the device has inside the host."""


class ProcessorSpec(Section):
    """A host's own processors, and which of its parts are near which: facts for reading.

    Nothing is priced by them until links have routes.
    """

    model: Figure[Name]
    """What they are called."""

    sockets: Figure[PositiveInt]
    """How many."""

    numa_nodes: Figure[PositiveInt]
    """Parts of the host's memory, each near some of the cores."""

    numa_of_device: Figure[tuple[NonNegativeInt, ...]] | None = None
    """The part that each device is near to."""


class DiskSpec(Section):
    """A host's local disks, facts for reading: no checkpoint is written to them yet."""

    count: Figure[PositiveInt] | None = None
    """How many."""

    capacity: Figure[Bytes]
    """Of all together."""

    read: Figure[Bandwidth] | None = None
    """All together."""

    write: Figure[Bandwidth] | None = None
    """All together."""


class HostSpec(CatalogSection):
    """A host: a file of the hosts catalog, or written in the cluster section."""

    noun: ClassVar[str] = "host"

    title: Name
    """What people call it."""

    device: DeviceSpec
    """Its devices, all equal: a name of the catalog, or a device."""

    devices: Figure[PositiveInt]
    """How many of them."""

    memory: Figure[Bytes]
    """Memory of the host."""

    installed: Figure[PositiveInt] | None = None
    """How many hosts the real machine has, where this is a named one; any other number can be simulated."""

    processors: ProcessorSpec | None = None
    """Its own processors."""

    disks: DiskSpec | None = None
    """Its local disks."""

    fabric: FabricSpec
    """How its devices are joined."""

    island: IslandSpec | None = None
    """A part of the host that is joined more closely; none where all devices are joined alike."""

    pod: PodSpec | None = None
    """Hosts that are joined like the devices of one; none where the network is the only way out."""

    network: NetworkSpec
    """Its way to other hosts."""

    pcie: LinkSpec | None = None
    """Between each device and the host's memory; none where the device is the host's processor."""

    collectives: dict[Name, dict[Name, Figure[ProtocolSpec]]]
    """The communication library's protocols by algorithm; ``default`` for algorithms not named here."""

    @model_validator(mode="after")
    def _is_complete(self) -> HostSpec:
        nics, devices = self.network.nics.value, self.devices.value
        if nics > devices and nics % devices:
            raise Refused(f"{nics} cards do not spread evenly over {devices} devices", path="network.nics")
        if self.island and devices % (size := self.island.devices.value):
            raise Refused(
                f"{devices} devices are no whole islands of {size}; write island: null if there are none",
                path="island.devices",
            )
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

    def completed(self) -> Self:
        """The same with every figure of the links between its devices, also those that the device gives."""
        parts = {"fabric": self.fabric, "island": self.island, "pod": self.pod}
        own = self.device.links
        return self.model_copy(update={name: part.completed(own) for name, part in parts.items() if part})

    @classmethod
    def entries(cls) -> Mapping[str, Traversable]:
        """The shipped hosts."""
        return data_files("simcluster.cluster.hosts")

    def build(self) -> Host:
        """The host."""
        own = self.device.links
        bundle = max(1, self.network.nics.value // self.devices.value)
        card = self.network.build()
        port = Link(card.bandwidth * bundle, card.efficiency, card.latency)
        return Host(
            name=self.use or self.title,
            device=self.device.build(),
            num_devices=self.devices.value,
            fabric=self.fabric.build(own),
            network=Network(self.network.nics.value // bundle, port),
            pcie=self.pcie.build() if self.pcie else None,
            memory=round(self.memory.value),
            protocols={
                algorithm: tuple(_protocol(name, figure.value) for name, figure in protocols.items())
                for algorithm, protocols in self.collectives.items()
            },
            island=Island(self.island.devices.value, self.island.build(own)) if self.island else None,
            pod=self.pod.build(own) if self.pod else None,
        )


class ClusterSpec(Section):
    """The ``cluster:`` section: ``{use: dgx-h100, hosts: 32}``, or ``{host: {...}, hosts: 4}``."""

    use: Name | None = None
    """A host of the catalog."""

    host: HostSpec | None = None
    """The host, written out or with changes; instead of ``use``."""

    hosts: PositiveInt
    """How many of them."""

    changes: tuple[ChangeSpec, ...] = ()
    """Devices that are slower or faster than their file says; those of one device multiply."""

    @model_validator(mode="after")
    def _has_a_host(self) -> ClusterSpec:
        if (self.use is None) == (self.host is None):
            raise Refused("name a host with 'use: dgx-h100', or write it under 'host'; one of the two")
        HostSpec.expanded(self.use)
        if self.changes:
            self._check_changes(self._host().devices.value)
        return self

    def _check_changes(self, per_host: int) -> None:
        if (count := self.hosts * per_host) > MOST_DEVICES:
            raise Refused(f"{count:,} devices; some can be changed in at most {MOST_DEVICES:,}", path="hosts")
        for index, change in enumerate(self.changes):
            try:
                change.check(self.hosts, per_host)
            except Refused as refused:
                inner = refused.problems[0]
                raise Refused(inner.message, path=f"changes.{index}.{inner.path}") from None

    def build(self, seed: int = 0) -> Cluster:
        """The cluster, with the assumed figures it rests on; ``seed`` draws what its changes leave to chance.

        Raises PlanError if the changes of a device multiply to something out of all bounds.
        """
        host = self._host()
        assumed = tuple(_assumptions(host, host.use or host.title))
        changed = speeds(self.changes, self.hosts, host.devices.value, seed)
        return Cluster(host.build(), self.hosts, assumed, changed)

    def _host(self) -> HostSpec:
        return self.host or HostSpec.model_validate({"use": self.use})


def _protocol(name: str, spec: ProtocolSpec) -> Protocol:
    hops, shares = (spec.host_hop, spec.network_hop), (spec.host_share, spec.network_share)
    return Protocol(name, spec.base, hops, shares, spec.own)


def _assumptions(part: Any, name: str) -> Iterator[Assumption]:
    """The assumed figures of a section and all below it; a device's are named after the device."""
    if isinstance(part, (ClockSpec, ProcessorSpec, DiskSpec)):
        return  # facts for reading: no result rests on them
    if isinstance(part, Figure):
        if part.provenance == "assumed":
            yield Assumption(name, _text(part.model_dump(mode="json")["value"]), part.source)
    elif isinstance(part, Section):
        for field in type(part).model_fields:
            inner = getattr(part, field)
            named = inner.use or inner.title if isinstance(inner, DeviceSpec) else f"{name}.{field}"
            yield from _assumptions(inner, named)
    elif isinstance(part, (dict, tuple)):
        for key, inner in part.items() if isinstance(part, dict) else enumerate(part):
            yield from _assumptions(inner, f"{name}.{key}")


def _text(value: Any) -> str:
    """A figure's value on one line, as a YAML file would have it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_text(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_text(inner) for inner in value) + "]"
    return str(value)
