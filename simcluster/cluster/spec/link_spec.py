"""What catalog files say about links: a device's own, those inside a host, and the way to other hosts."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from simcluster.cluster.interconnect import HostFabric, Link, Pod, ShareByCount, Wiring
from simcluster.cluster.spec.network_choice import AnyNetwork
from simcluster.document import (
    Bandwidth,
    Duration,
    Figure,
    Fraction,
    Name,
    NonNegativeInt,
    PositiveInt,
    Refused,
    Section,
)


class LinksSpec(Section):
    """The device's own links to other devices; figures for one direction."""

    count: Figure[PositiveInt]
    """Number of links."""

    bandwidth: Figure[Bandwidth]
    """Raw bandwidth of one link."""

    efficiency: Figure[Fraction]
    """Share of the raw bandwidth that large transfers reach."""


class LinkSpec(Section):
    """One direction of a link."""

    bandwidth: Figure[Bandwidth]
    """Raw bandwidth."""

    efficiency: Figure[Fraction]
    """Share of the raw bandwidth that large transfers reach."""

    latency: Figure[Duration]
    """Time until the first byte of a small message arrives."""

    def build(self) -> Link:
        """The link."""
        return Link(self.bandwidth.value, self.efficiency.value, self.latency.value)


class DeviceLinkSpec(Section):
    """Links between devices. Missing figures are taken from the device's own links."""

    bandwidth: Figure[Bandwidth] | None = None
    """Raw bandwidth from a device to the switch, or of one link of a mesh."""

    efficiency: Figure[Fraction] | None = None
    """Share of the raw bandwidth that large transfers reach."""

    latency: Figure[Duration]
    """Time until the first byte of a small message arrives."""

    def lacking(self, own: LinksSpec | None) -> str:
        """A figure that is neither written nor the device's; nothing if there is none."""
        names = () if own else ("bandwidth", "efficiency")
        return next((name for name in names if getattr(self, name) is None), "")

    @property
    def takes_all_links(self) -> bool:
        """Whether all of a device's links work as one, or each by itself."""
        return True

    def completed(self, own: LinksSpec | None) -> Self:
        """The same with what is not written taken from the device's ``own`` links."""
        if own is None:
            return self
        bandwidth = own.bandwidth
        if self.takes_all_links:
            count = own.count.value
            source = f"{count} of the device's links ({bandwidth.source})"
            bandwidth = bandwidth.model_copy(update={"value": bandwidth.value * count, "source": source})
        return self.model_copy(
            update={
                "bandwidth": self.bandwidth or bandwidth,
                "efficiency": self.efficiency or own.efficiency,
            }
        )

    def link(self, own: LinksSpec | None) -> Link:
        """The link, what is not written from the device's ``own``."""
        whole = self.completed(own)
        assert whole.bandwidth and whole.efficiency, "HostSpec refuses a host that lacks them"
        return Link(whole.bandwidth.value, whole.efficiency.value, self.latency.value)


def _rising(entries: tuple[tuple[int, float], ...]) -> tuple[tuple[int, float], ...]:
    for (fewer, _), (more, _) in pairwise(entries):
        if more <= fewer:
            raise ValueError(f"{more} stands behind {fewer}; write the numbers rising")
    return entries


Shares = Annotated[tuple[tuple[PositiveInt, Fraction], ...], Field(min_length=1), AfterValidator(_rising)]
"""Numbers of ranks or hosts, rising, and a share for each."""


class FabricSpec(DeviceLinkSpec):
    """The links between the devices of a host."""

    wiring: Wiring
    """switch, full_mesh or partial_mesh; or trunk: one link between each pair of islands."""

    links: Figure[tuple[tuple[PositiveInt, PositiveInt], ...]] | None = None
    """For a partial mesh: pairs of a group size in ranks (ascending from 2) and the number of links out of
    each device that such a group can use."""

    pairs: Figure[tuple[tuple[NonNegativeInt, NonNegativeInt, PositiveInt], ...]] | None = None
    """For a partial mesh: which devices are connected, and by how many links: ``[[0, 1, 1], [0, 3, 2]]``."""

    name: Name = "fabric"
    """Name of its links, such as nvlink."""

    reduces: Figure[bool] | None = None
    """Whether the switch can reduce data that passes through it; by default not."""

    over_pcie: Figure[bool] | None = None
    """Whether devices reach the switch through their PCIe links; by default not."""

    by_ranks: Figure[Shares] | None = None
    """Share of the bandwidth that collectives reach, by their number of ranks on a host: ``[[4, 1.0], [8,
    0.25]]``. Between two entries a power law; outside them the nearest entry. If absent, all of it."""

    @model_validator(mode="after")
    def _pairs_fit_the_wiring(self) -> FabricSpec:
        if self.pairs and self.wiring is not Wiring.PARTIAL_MESH:
            raise Refused("only a partial mesh is written pair by pair", path="pairs")
        if self.reduces and self.wiring is not Wiring.SWITCH:
            raise Refused("only a switch adds up what goes through it", path="reduces")
        if self.over_pcie and self.wiring is not Wiring.SWITCH:
            raise Refused("only a switch is reached over PCIe", path="over_pcie")
        seen = set()
        for index, (one, other, _) in enumerate(self.pairs.value if self.pairs else ()):
            if one == other or (pair := frozenset((one, other))) in seen:
                raise Refused(
                    f"{one} and {other} are " + ("one device" if one == other else "joined twice"),
                    path=f"pairs.value.{index}",
                )
            seen.add(pair)
        return self

    @model_validator(mode="after")
    def _links_fit_the_wiring(self) -> FabricSpec:
        if (self.links is None) == (self.wiring is Wiring.PARTIAL_MESH):
            raise Refused("write 'links' for a partial mesh, and only for one", path="links")
        ranks = [ranks for ranks, _ in self.links.value] if self.links else [2]
        if ranks[:1] != [2] or ranks != sorted(set(ranks)):
            raise Refused("the groups start with 2 ranks and rise", path="links")
        return self

    @property
    def takes_all_links(self) -> bool:
        """Towards a switch; in a mesh each link leads to another device."""
        return self.wiring is Wiring.SWITCH

    def build(self, own: LinksSpec | None) -> HostFabric:
        """The fabric of devices with their ``own`` links."""
        return HostFabric(
            self.wiring,
            self.link(own),
            self.links.value if self.links else (),
            self.pairs.value if self.pairs else (),
            self.name,
            bool(self.reduces and self.reduces.value),
            bool(self.over_pcie and self.over_pcie.value),
            ShareByCount(self.by_ranks.value if self.by_ranks else ()),
        )


class IslandSpec(FabricSpec):
    """A part of a host whose devices are connected more closely than the rest, such as a group of four."""

    devices: Figure[PositiveInt]
    """Devices per island, of consecutive ranks."""

    @model_validator(mode="after")
    def _is_no_whole_host(self) -> IslandSpec:
        if self.by_ranks:
            raise Refused("it counts the ranks of a host; write it under fabric", path="by_ranks")
        return self


class PodSpec(DeviceLinkSpec):
    """Hosts whose devices are connected by their own links, all through one switch: a rack, a super-pod."""

    hosts: Figure[PositiveInt]
    """Hosts per pod, of consecutive ranks."""

    def build(self, own: LinksSpec | None) -> Pod:
        """The pod of devices with their ``own`` links."""
        return Pod(self.hosts.value, self.link(own))


class NetworkSpec(LinkSpec):
    """A host's network cards; device i uses card i x nics / devices."""

    nics: Figure[PositiveInt]
    """Network cards per host; if more than devices, equal bundles of cards work as one."""

    on_device: Figure[bool] | None = None
    """Whether the cards are part of the devices, reached without PCIe; by default not."""

    switch_latency: Figure[Duration] | None = None
    """Latency added by each switch on the path after the first; zero if absent."""

    by_hosts: Figure[Shares] | None = None
    """Share of that bandwidth that collectives reach, by the number of hosts (or pods) they span: ``[[4,
    1.0], [64, 0.5]]``. Between two entries a power law; outside them the nearest entry. If absent, all of it.
    """

    fabric: AnyNetwork | None = None
    """How the cards of all hosts are connected; by default through one ideal switch."""


class PcieSpec(LinkSpec):
    """The link between each device and the PCIe tree, and through it the host's memory."""

    devices_per_switch: Figure[PositiveInt] | None = None
    """Neighbouring devices behind one PCIe switch, which share its uplink; 1 if absent."""
