"""A leaf per rail: card i of every host of a unit is on the unit's leaf i."""

from __future__ import annotations

from functools import partial
from typing import ClassVar, Literal

from simcluster.cluster.interconnect import FabricBuilder, Numbers, ReducingSpec, Tiers, check_cables
from simcluster.cluster.networks.leaf_spine import Over, oversubscription_or_one
from simcluster.deferred_dataclass import dataclass
from simcluster.document import Figure, PositiveInt, Refused


class RailOptimisedSpec(ReducingSpec):
    """``{kind: rail_optimised, hosts_per_unit: 32}``."""

    kind: Literal["rail_optimised"]
    """A leaf for each network card of the hosts of a unit; spines over all leaves."""

    hosts_per_unit: Figure[PositiveInt]
    """Neighbouring hosts of a scalable unit."""

    units_per_block: Figure[PositiveInt] | None = None
    """Units under the same spines, with cores above the spines; if absent, all units, without a third tier.
    """

    oversubscription: Figure[Over] | None = None
    """Rate of the cards below a leaf over that of its uplinks; by default 1, which never blocks."""

    core_oversubscription: Figure[Over] | None = None
    """Downlink rate over uplink rate of the spines below the cores; by default 1."""

    cross_rail: Literal["inner", "spine"] = "inner"
    """How a card of another rail is reached: over the links inside the sending host first (inner: PXN), or
    over the spines."""

    ecmp: Literal["ideal", "hash"] = "ideal"
    """How messages use equal-cost paths: spread perfectly (ideal), or each on the path its hash selects."""

    def check(self, num_hosts: int, nics: int) -> None:
        """Refused if a core has no spine below, or a hash would have to choose among parts of cables."""
        self.check_tree(self.ecmp)
        if self.core_oversubscription and not self.units_per_block:
            raise Refused("there are cores only with 'units_per_block'", path="core_oversubscription")
        if self.ecmp == "hash":
            below = self.hosts_per_unit.value
            check_cables(
                below, oversubscription_or_one(self.oversubscription), "cards of a leaf", "oversubscription"
            )
            if self.units_per_block:
                below, ratio = (
                    self.units_per_block.value * nics,
                    oversubscription_or_one(self.core_oversubscription),
                )
                check_cables(below, ratio, "leaves of a spine", "core_oversubscription")

    def builder(self) -> FabricBuilder:
        """What makes this fabric for given network cards."""
        return partial(
            RailOptimised,
            oversubscription=(
                oversubscription_or_one(self.oversubscription),
                oversubscription_or_one(self.core_oversubscription),
            ),
            hashed=self.ecmp == "hash",
            reduces=self.reduction,
            hosts_per_unit=self.hosts_per_unit.value,
            units_per_block=self.units_per_block.value if self.units_per_block else 0,
            inner=self.cross_rail == "inner",
        )


@dataclass(frozen=True, slots=True, eq=False)
class RailOptimised(Tiers):
    """Units of ``hosts_per_unit`` hosts with a leaf per card of a host."""

    kind: ClassVar[str] = "rail_optimised"
    spec: ClassVar[type[ReducingSpec]] = RailOptimisedSpec

    hosts_per_unit: int = 1
    units_per_block: int = 0
    inner: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "leaves_per_block", self.units_per_block * self.site.nics)

    @property
    def moves_inside(self) -> bool:
        """Whether a message to another rail first moves to the device on that rail, inside its host."""
        return self.inner

    @property
    def cards_per_leaf(self) -> int:
        """Cards of a full leaf: one of each host of the unit."""
        return self.hosts_per_unit

    @property
    def num_leaves(self) -> int:
        """Leaves of all units."""
        return -(-self.site.num_hosts // self.hosts_per_unit) * self.site.nics

    @property
    def leaf_axes(self) -> tuple[str, tuple[int, ...]]:
        """``unit.2.rail.5``."""
        return "unit.{}.rail.{}", (self.num_leaves // self.site.nics, self.site.nics)

    def leaf_of(self, cards: Numbers) -> Numbers:
        """The leaf of each card."""
        nics = self.site.nics
        return cards // nics // self.hosts_per_unit * nics + cards % nics

    def unit_of(self, hosts: Numbers) -> Numbers:
        """The unit of a host."""
        return hosts // self.hosts_per_unit
