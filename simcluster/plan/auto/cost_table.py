"""Tables of costs by strategy, and lists of costs of which none is worse than another (Pareto)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simcluster.deferred_dataclass import dataclass
from simcluster.number_arrays import Floats
from simcluster.plan.auto.strategy_cost import IMPOSSIBLE, CostWeights, StrategyCost


@dataclass(frozen=True, eq=False, slots=True)
class CostTable:
    """Costs by strategy of one operator, or by those of the two operators of an edge."""

    compute: Floats
    """Computation."""
    communication: Floats
    """Communication."""
    memory: Floats
    """Bytes."""

    @classmethod
    def of(cls, costs: Sequence[StrategyCost], shape: tuple[int, ...] | None = None) -> CostTable:
        """The table of costs, row by row."""
        columns = np.array(
            [(cost.compute, cost.communication, cost.memory) for cost in costs], dtype=np.float64
        ).reshape(-1, 3)
        wanted = shape if shape is not None else (len(costs),)
        compute, communication, memory = (column.reshape(wanted) for column in columns.T)
        return cls(compute.copy(), communication.copy(), memory.copy())

    def objective(self, weights: CostWeights) -> Floats:
        """What is minimised."""
        possible = np.isfinite(self.communication)
        sent = np.where(possible, self.communication, 0.0)
        return np.where(possible, weights.alpha * self.compute + weights.beta * sent, IMPOSSIBLE)

    def at(self, *places: Any) -> CostTable:
        """A part of the table."""
        return CostTable(self.compute[places], self.communication[places], self.memory[places])

    def cost(self, *places: int) -> StrategyCost:
        """One entry."""
        return StrategyCost(
            float(self.compute[places]), float(self.communication[places]), float(self.memory[places])
        )


@dataclass(frozen=True, eq=False, slots=True)
class ParetoList:
    """Costs of which none has both less memory and a smaller objective than another, by rising objective.

    Computation and communication are weighted before the search, so of two costs with equal memory only the
    one with the smaller objective can be part of the best answer; a list by all three criteria would hold the
    same answers and more.
    """

    objective: Floats
    """What is minimised."""
    memory: Floats
    """Bytes, falling."""
    origin: NDArray[np.int64]
    """For every entry where it comes from, by whoever made it."""

    @classmethod
    def of(cls, objective: Floats, memory: Floats, origin: NDArray[np.int64]) -> ParetoList:
        """The costs that no other one dominates."""
        possible = np.isfinite(objective)
        objective, memory, origin = objective[possible], memory[possible], origin[possible]
        order = np.lexsort((memory, objective))
        memory = memory[order]
        if len(memory):
            least = np.minimum.accumulate(memory)
            kept = np.concatenate(([True], memory[1:] < least[:-1]))
            order, memory = order[kept], memory[kept]
        return cls(objective[order], memory, origin[order])

    def thinned(self, share: float) -> ParetoList:
        """The list without entries that a later one, dearer by at most this share, replaces with less memory.

        So for every entry that goes there is one with no more memory and at most ``1 + share`` of its cost.
        """
        if len(self.objective) < 3 or share <= 0:
            return self
        kept = []
        place = 0
        while place < len(self.objective):
            reach = np.searchsorted(self.objective, self.objective[place] * (1 + share), side="right") - 1
            kept.append(max(place, int(reach)))
            place = kept[-1] + 1
        return self._only(np.array(kept))

    def at_most(self, count: int) -> ParetoList:
        """At most so many entries, evenly chosen, that with least memory and, of several, the cheapest."""
        if len(self.objective) <= count:
            return self
        last = len(self.objective) - 1
        kept = np.linspace(0, last, count).round().astype(np.int64) if count > 1 else np.array([last])
        return self._only(np.unique(kept))

    def within(self, capacity: float) -> ParetoList:
        """The entries that need at most so many bytes."""
        return self._only(np.flatnonzero(self.memory <= capacity))

    def _only(self, kept: NDArray[np.int64]) -> ParetoList:
        return ParetoList(self.objective[kept], self.memory[kept], self.origin[kept])

    def __len__(self) -> int:
        return len(self.objective)
