"""HCCL's nonuniform hierarchical ring between units, a mesh inside."""

from __future__ import annotations

from typing import ClassVar

from simcluster.collectives.patterns import BETWEEN, TwoLevel, uneven_ring_rounds
from simcluster.collectives.step import AlgorithmStep
from simcluster.number_arrays import Ints


class Nhr(TwoLevel):
    """Between q units a reduce-scatter and an all-gather of rounded-up log2 q rounds, as few bytes as a ring.

    Any number of units: in round k a rank talks to the one 2^k units on.
    """

    kind: ClassVar[str] = "nhr"

    def across(
        self, columns: Ints, base: Ints | int, width: int, *, reduce: bool
    ) -> tuple[AlgorithmStep, ...]:
        """See ``TwoLevel.across``."""
        return uneven_ring_rounds(columns, base, width, reduce=reduce, hops=BETWEEN)
