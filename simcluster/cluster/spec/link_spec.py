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
    """The links that a device itself has to other devices, one way."""

    count: Figure[PositiveInt]
    """How many."""

    bandwidth: Figure[Bandwidth]
    """The raw rate of one."""

    efficiency: Figure[Fraction]
    """Share of the raw rate that large transfers reach."""


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


class DeviceLinkSpec(Section):
    """Links between devices. What is not written is taken from the device's own links."""

    bandwidth: Figure[Bandwidth] | None = None
    """The raw rate: out of a device to a switch, or of one link of a mesh."""

    efficiency: Figure[Fraction] | None = None
    """Share of the raw rate that large transfers reach."""

    latency: Figure[Duration]
    """Until the first byte of a small message is there."""

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
    """The links between devices of a host."""

    wiring: Wiring
    """switch, full_mesh or partial_mesh; or trunk: a link that joins each pair of islands."""

    links: Figure[tuple[tuple[PositiveInt, PositiveInt], ...]] | None = None
    """In a partial mesh: ranks of a group, rising, and the links out of each device that it can use."""

    pairs: Figure[tuple[tuple[NonNegativeInt, NonNegativeInt, PositiveInt], ...]] | None = None
    """In a partial mesh: which devices are joined, and by how many links: ``[[0, 1, 1], [0, 3, 2]]``."""

    name: Name = "fabric"
    """What its links are called, such as nvlink."""

    reduces: Figure[bool] | None = None
    """Whether the switch can add up what goes through it; not, if nothing is written."""

    over_pcie: Figure[bool] | None = None
    """Whether devices get to the switch through their PCIe links; not, if nothing is written."""

    by_ranks: Figure[Shares] | None = None
    """What collectives reach of the rate by their ranks on a host: ``[[4, 1.0], [8, 0.25]]``, a power law
    between two numbers, the last share beyond; all of it, if nothing is written."""

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
    """A part of a host whose devices are joined more closely than the rest, such as a group of four."""

    devices: Figure[PositiveInt]
    """Devices of an island; neighbours in rank."""

    @model_validator(mode="after")
    def _is_no_whole_host(self) -> IslandSpec:
        if self.by_ranks:
            raise Refused("it counts the ranks of a host; write it under fabric", path="by_ranks")
        return self


class PodSpec(DeviceLinkSpec):
    """Hosts whose devices are joined by their own links, all through one switch: a rack, a super-pod."""

    hosts: Figure[PositiveInt]
    """Hosts of a pod; neighbours in rank."""

    def build(self, own: LinksSpec | None) -> Pod:
        """The pod of devices with their ``own`` links."""
        return Pod(self.hosts.value, self.link(own))


class NetworkSpec(LinkSpec):
    """A host's network cards; device i uses card i x nics / devices."""

    nics: Figure[PositiveInt]
    """Cards of a host; more cards than devices work in equal bundles."""

    on_device: Figure[bool] | None = None
    """Whether the cards are part of the devices, reached without PCIe; not, if nothing is written."""

    switch_latency: Figure[Duration] | None = None
    """What each switch on the way behind the first adds to the latency; nothing, if not written."""

    by_hosts: Figure[Shares] | None = None
    """What collectives reach of that rate by the hosts (or pods) that they lie on: ``[[4, 1.0], [64, 0.5]]``,
    a power law between two numbers, the last share beyond; all of it, if nothing is written."""

    fabric: AnyNetwork | None = None
    """How the cards of all hosts are joined; by one ideal switch, if nothing is written."""


class PcieSpec(LinkSpec):
    """The link between each device and the PCIe tree, and so the host's memory."""

    devices_per_switch: Figure[PositiveInt] | None = None
    """Neighbouring devices behind one PCIe switch, which share its link up; one, if nothing is written."""
