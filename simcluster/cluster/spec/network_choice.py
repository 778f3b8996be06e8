"""The kinds of network fabric that a document may choose from: those of the folder ``networks``."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, TypeAlias

from simcluster.cluster.interconnect import NetworkFabric, NetworkFabricSpec
from simcluster.registry import kinds


def network_kinds() -> dict[str, type[NetworkFabric]]:
    """The fabrics by their kind."""
    return kinds("simcluster.cluster.networks", NetworkFabric)


if TYPE_CHECKING:
    AnyNetwork: TypeAlias = NetworkFabricSpec
else:
    AnyNetwork = reduce(or_, (kind.spec for kind in network_kinds().values()))
