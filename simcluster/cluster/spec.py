"""The scenario's ``cluster:`` section, and what a host file may say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.resources.abc import Traversable
from typing import Any, ClassVar

from pydantic import model_validator

from simcluster.cluster.cluster import Assumption, Cluster
from simcluster.cluster.device_spec import DeviceSpec
from simcluster.cluster.host import Host, Protocol
from simcluster.cluster.link import Fabric, Link, Network, Wiring
from simcluster.document import (
    Bandwidth,
    Bytes,
    CatalogSection,
    Duration,
    Figure,
    Fraction,
    Name,
    PositiveInt,
    Refused,
    Section,
    Unsupported,
)
from simcluster.registry import data_files


class LinkSpec(Section):
    """One direction of a link."""

    bandwidth: Figure[Bandwidth]
    """The raw rate."""

    efficiency: Figure[Fraction]
    """Share of the raw rate that large transfers reach."""

    latency: Figure[Duration]
    """Until the first byte of a small message is there."""

    def build(self) -> Link:
        """The link."""
        return Link(self.bandwidth.value, self.efficiency.value, self.latency.value)


class FabricSpec(LinkSpec):
    """The links inside a host: a device's port to a switch, or the link between each pair of devices."""

    wiring: Wiring
    """switch, or full_mesh."""


class NetworkSpec(LinkSpec):
    """A host's network cards; device i uses card i x nics / devices."""

    nics: Figure[PositiveInt]
    """Cards of a host; more cards than devices work in equal bundles."""


class ProtocolSpec(Section):
    """How the communication library moves data in one of its ways."""

    base: Duration
    """Once per collective."""

    host_hop: Duration
    """Per step inside a host."""

    network_hop: Duration
    """Per step between hosts."""

    host_share: Fraction
    """Part of the fabric's usable rate that it reaches."""

    network_share: Fraction
    """Part of the network's usable rate that it reaches."""


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

    fabric: FabricSpec
    """How its devices are joined."""

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
        if not self.collectives.get("default"):
            raise Refused("the protocols of 'default' are missing", path="collectives")
        if empty := [name for name, protocols in self.collectives.items() if not protocols]:
            raise Refused("give at least one protocol", path=f"collectives.{empty[0]}")
        return self

    @classmethod
    def entries(cls) -> Mapping[str, Traversable]:
        """The shipped hosts."""
        return data_files("simcluster.cluster.hosts")

    def build(self) -> Host:
        """The host."""
        bundle = max(1, self.network.nics.value // self.devices.value)
        card = self.network.build()
        port = Link(card.bandwidth * bundle, card.efficiency, card.latency)
        return Host(
            name=self.use or self.title,
            device=self.device.build(),
            num_devices=self.devices.value,
            fabric=Fabric(self.fabric.wiring, self.fabric.build()),
            network=Network(self.network.nics.value // bundle, port),
            pcie=self.pcie.build() if self.pcie else None,
            memory=round(self.memory.value),
            protocols={
                algorithm: tuple(_protocol(name, figure.value) for name, figure in protocols.items())
                for algorithm, protocols in self.collectives.items()
            },
        )


class ClusterSpec(Section):
    """The ``cluster:`` section: ``{use: dgx-h100, hosts: 32}``, or ``{host: {...}, hosts: 4}``."""

    use: Name | None = None
    """A host of the catalog."""

    host: HostSpec | None = None
    """The host, written out or with changes; instead of ``use``."""

    hosts: PositiveInt
    """How many of them."""

    changes: Unsupported = None
    """Stragglers, degraded links, background traffic."""

    @model_validator(mode="after")
    def _has_a_host(self) -> ClusterSpec:
        if (self.use is None) == (self.host is None):
            raise Refused("name a host with 'use: dgx-h100', or write it under 'host'; one of the two")
        HostSpec.expanded(self.use)
        return self

    def build(self) -> Cluster:
        """The cluster, with the assumed figures it rests on."""
        host = self.host or HostSpec.model_validate({"use": self.use})
        return Cluster(host.build(), self.hosts, tuple(_assumptions(host, host.use or host.title)))


def _protocol(name: str, spec: ProtocolSpec) -> Protocol:
    hops, shares = (spec.host_hop, spec.network_hop), (spec.host_share, spec.network_share)
    return Protocol(name, spec.base, hops, shares)


def _assumptions(part: Any, name: str) -> Iterator[Assumption]:
    """The assumed figures of a section and all below it; a device's are named after the device."""
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
