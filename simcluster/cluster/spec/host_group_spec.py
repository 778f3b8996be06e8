"""Groups of identical hosts, of which a cluster is made."""

from __future__ import annotations

from functools import cache
from typing import Self

from pydantic import ConfigDict, model_validator

from simcluster.cluster.interconnect import FabricBuilder, FabricCards, NetworkFabric
from simcluster.cluster.networks import Switch
from simcluster.cluster.spec.host_spec import HostSpec
from simcluster.cluster.spec.network_choice import AnyNetwork
from simcluster.document import Name, PositiveInt, Refused, Section


class HostGroupSpec(Section):
    """A group of identical hosts: ``{use: dgx-h100, hosts: 2}``, or ``{host: {...}, hosts: 2}``."""

    model_config = ConfigDict(defer_build=False)  # for sections that hold it: they take over what is built

    use: Name | None = None
    """A host of the catalog."""

    host: HostSpec | None = None
    """The host, written inline or as a catalog host with changes; instead of ``use``."""

    hosts: PositiveInt
    """Number of hosts."""

    network: AnyNetwork | None = None
    """How the network cards are connected; if absent, as the host's file says."""

    @model_validator(mode="after")
    def _has_a_host(self) -> Self:
        if (self.use is None) == (self.host is None):
            raise Refused("name a host with 'use: dgx-h100', or write it under 'host'; one of the two")
        host = self.made
        nics = min(host.network.nics.value, host.devices.value)
        for path, network in (("network", self.network), ("host.network.fabric", host.network.fabric)):
            if network is None:
                continue
            try:
                network.check(self.hosts, nics)
            except Refused as refused:
                inner = refused.problems[0]
                raise Refused(inner.message, path=f"{path}.{inner.path}") from None
            break
        return self

    @property
    def made(self) -> HostSpec:
        """The host, wherever it is written."""
        return self.host or _host_of_catalog(self.use)

    @property
    def builder(self) -> FabricBuilder:
        """The network, for any site."""
        network = self.network or self.made.network.fabric
        return network.builder() if network else Switch

    @property
    def is_joinable(self) -> bool:
        """Whether its network has one root, at which other groups can join it."""
        return self._alone.root >= 0

    @property
    def reduces(self) -> bool:
        """Whether its network adds up what passes it."""
        return self._alone.reduces is not None

    @property
    def _alone(self) -> NetworkFabric:
        site = FabricCards(self.hosts, self.made.network.nics.value, self.made.network.build())
        return self.builder(site)


@cache
def _host_of_catalog(name: str | None) -> HostSpec:
    """The host of this name, built once: every question about a cluster asks for it. Refused if unknown."""
    HostSpec.expanded(name)
    return HostSpec.model_validate({"use": name})
