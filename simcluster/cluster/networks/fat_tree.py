"""Three tiers: leaves that hold whole hosts, spines over the leaves of a block, cores over all blocks."""

from __future__ import annotations

from functools import partial
from typing import ClassVar, Literal

from simcluster.cluster.interconnect import FabricBuilder, ReducingSpec, check_cables
from simcluster.cluster.networks.leaf_spine import LeafSpine, Over
from simcluster.deferred_dataclass import dataclass
from simcluster.document import Figure, PositiveInt


class FatTreeSpec(ReducingSpec):
    """``{kind: fat_tree, hosts_per_leaf: 4, leaves_per_block: 16, oversubscription: [1, 2]}``."""

    kind: Literal["fat_tree"]
    """Three tiers: leaves, spines per block, cores."""

    hosts_per_leaf: Figure[PositiveInt]
    """Neighbouring hosts on each leaf."""

    leaves_per_block: Figure[PositiveInt]
    """Neighbouring leaves under the same spines."""

    oversubscription: Figure[tuple[Over, Over]] | None = None
    """Downlink rate over uplink rate, of leaves and of spines; by default 1, which never blocks."""

    ecmp: Literal["ideal", "hash"] = "ideal"
    """How messages use equal-cost paths: spread perfectly (ideal), or each on the path its hash selects."""

    def check(self, num_hosts: int, nics: int) -> None:
        """Refused if a hash would have to choose among parts of cables, or reduces."""
        self.check_tree(self.ecmp)
        if self.ecmp == "hash" and self.oversubscription:
            leaves, spines = self.oversubscription.value
            below = self.hosts_per_leaf.value * nics
            check_cables(below, leaves, "cards of a leaf", "oversubscription")
            check_cables(self.leaves_per_block.value, spines, "leaves of a spine", "oversubscription")

    def builder(self) -> FabricBuilder:
        """What makes this fabric for given network cards."""
        return partial(
            FatTree,
            oversubscription=self.oversubscription.value if self.oversubscription else (1.0, 1.0),
            leaves_per_block=self.leaves_per_block.value,
            hashed=self.ecmp == "hash",
            reduces=self.reduction,
            hosts_per_leaf=self.hosts_per_leaf.value,
        )


@dataclass(frozen=True, slots=True, eq=False)
class FatTree(LeafSpine):
    """Three tiers over leaves of ``hosts_per_leaf`` hosts."""

    kind: ClassVar[str] = "fat_tree"
    spec: ClassVar[type[ReducingSpec]] = FatTreeSpec
