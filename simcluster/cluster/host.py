"""A host: equal devices, the fabric between them, and its way to the network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from simcluster.cluster.device import Device
from simcluster.cluster.link import Fabric, Island, Link, Network, Pod


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


@dataclass(frozen=True, slots=True, eq=False)
class Host:
    """A server with ``num_devices`` equal devices.

    ``pcie``: the link between a device and the host's memory, absent where the device is the processor;
    ``memory``: bytes of the host. ``protocols``: what the communication library can choose from, by
    algorithm; algorithms not named there use ``default``. ``island``: a closer part of the host; ``pod``:
    the hosts that are reached without the network; both are absent in most hosts.
    """

    name: str
    device: Device
    num_devices: int
    fabric: Fabric
    network: Network
    pcie: Link | None
    memory: int
    protocols: Mapping[str, tuple[Protocol, ...]]
    island: Island | None = None
    pod: Pod | None = None

    def protocols_of(self, algorithm: str) -> tuple[Protocol, ...]:
        """The protocols under which ``algorithm`` can run here."""
        return self.protocols.get(algorithm, self.protocols["default"])
