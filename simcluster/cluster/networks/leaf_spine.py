"""Leaves that hold whole hosts, and spines over all leaves."""

from __future__ import annotations

from functools import partial
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from simcluster.cluster.interconnect import FabricBuilder, Numbers, ReducingSpec, Tiers, check_cables
from simcluster.deferred_dataclass import dataclass
from simcluster.document import Figure, PositiveInt

Over = Annotated[float, Field(ge=1)]
"""Rate below a switch over that of its cables up."""


class LeafSpineSpec(ReducingSpec):
    """``{kind: leaf_spine, hosts_per_leaf: 16, oversubscription: 2}``."""

    kind: Literal["leaf_spine"]
    """Two tiers: all cards of a host are on one leaf."""

    hosts_per_leaf: Figure[PositiveInt]
    """Neighbouring hosts on each leaf."""

    oversubscription: Figure[Over] | None = None
    """Rate of the cards below a leaf over that of its uplinks; by default 1, which never blocks."""

    ecmp: Literal["ideal", "hash"] = "ideal"
    """How messages use equal-cost paths: spread perfectly (ideal), or each on the path its hash selects."""

    def check(self, num_hosts: int, nics: int) -> None:
        """Refused if a hash would have to choose among parts of cables, or reduces."""
        self.check_tree(self.ecmp)
        if self.ecmp == "hash":
            below, ratio = self.hosts_per_leaf.value * nics, oversubscription_or_one(self.oversubscription)
            check_cables(below, ratio, "cards of a leaf", "oversubscription")

    def builder(self) -> FabricBuilder:
        """What makes this fabric for given network cards."""
        return partial(
            LeafSpine,
            oversubscription=(oversubscription_or_one(self.oversubscription),),
            hashed=self.ecmp == "hash",
            reduces=self.reduction,
            hosts_per_leaf=self.hosts_per_leaf.value,
        )


@dataclass(frozen=True, slots=True, eq=False)
class LeafSpine(Tiers):
    """Two tiers, leaves of ``hosts_per_leaf`` hosts."""

    kind: ClassVar[str] = "leaf_spine"
    spec: ClassVar[type[ReducingSpec]] = LeafSpineSpec

    hosts_per_leaf: int = 1

    @property
    def cards_per_leaf(self) -> int:
        """Cards of a full leaf."""
        return self.hosts_per_leaf * self.site.nics

    @property
    def num_leaves(self) -> int:
        """Leaves of all hosts."""
        return -(-self.site.num_hosts // self.hosts_per_leaf)

    @property
    def leaf_axes(self) -> tuple[str, tuple[int, ...]]:
        """``leaf.3``."""
        return "leaf.{}", (self.num_leaves,)

    def leaf_of(self, cards: Numbers) -> Numbers:
        """The leaf of each card."""
        return cards // self.cards_per_leaf

    def unit_of(self, hosts: Numbers) -> Numbers:
        """The leaf of a host."""
        return hosts // self.hosts_per_leaf


def oversubscription_or_one(written: Figure[Over] | None) -> float:
    """An oversubscription as written, or 1."""
    return written.value if written else 1.0
