"""One ideal switch: nothing beyond the cards themselves."""

from __future__ import annotations

from functools import partial
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from simcluster.cluster.interconnect import (
    CardRoutes,
    FabricBuilder,
    LinkFamily,
    NameBlock,
    NetworkFabric,
    Numbers,
    ReducingSpec,
    SwitchReduction,
)
from simcluster.deferred_dataclass import dataclass


class SwitchSpec(ReducingSpec):
    """One ideal switch: ``{kind: switch}``."""

    kind: Literal["switch"]
    """One ideal switch."""

    def builder(self) -> FabricBuilder:
        """The switch."""
        return partial(Switch, reduces=self.reduction)


@dataclass(frozen=True, slots=True, eq=False)
class Switch(NetworkFabric):
    """Every card reaches every other at its full rate."""

    kind: ClassVar[str] = "switch"
    spec: ClassVar[type[ReducingSpec]] = SwitchSpec

    reduces: SwitchReduction | None = None

    def nodes(self) -> list[NameBlock]:
        """The switch."""
        return [NameBlock("network", self.site.first_node, ())]

    def parts(self, hosts: Numbers) -> list[Numbers] | None:
        """See ``NetworkFabric.parts``."""
        return []

    def families(self) -> list[LinkFamily]:
        """None: a switch that never blocks has no links of its own."""
        return []

    def attached(self, cards: Numbers) -> Numbers:
        """The switch for all of them."""
        return np.full(np.shape(cards), self.site.first_node, dtype=np.int64)

    def cross(self, src: Numbers, dst: Numbers) -> CardRoutes:
        """Nothing between two cards."""
        return CardRoutes(np.zeros((len(src), 0), dtype=np.int64), np.zeros(len(src)))

    @property
    def root(self) -> int:
        """The switch."""
        return self.site.first_node

    def is_over(self, switches: Numbers, cards: Numbers) -> NDArray[np.bool_]:
        """See ``NetworkFabric.is_over``."""
        return np.asarray(switches == self.root)

    def to_switch(self, cards: Numbers, switches: Numbers, down: bool) -> CardRoutes:
        """Nothing behind the card."""
        return self.cross(cards, cards)

    def meeting(self, cards: Numbers) -> Numbers:
        """The switch for all of them."""
        return self.attached(cards[:, 0])

    def places(self, hosts: Numbers) -> list[Numbers]:
        """All hosts lie alike."""
        return []
