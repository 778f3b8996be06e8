"""What strategies cost: the interface of cost models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from simcluster.layout import Layout, Strategy
from simcluster.model import TensorType
from simcluster.plan.auto.cost_table import CostTable
from simcluster.plan.auto.operator_graph import OperatorKind
from simcluster.plan.auto.strategy_cost import CostWeights, StrategyCost


class CostModel(ABC):
    """Prices strategies of operators, and redistributions between them."""

    kind: ClassVar[str]
    """What ``parallel.auto.cost_model`` calls it."""
    unit: ClassVar[str]
    """What its costs are in."""
    weights: CostWeights
    """How computation and communication are added."""

    @abstractmethod
    def operator(self, kind: OperatorKind, strategy: Strategy) -> StrategyCost:
        """What an operator costs with a strategy: forward and, when training, backward."""

    @abstractmethod
    def redistribution(
        self, tensor: TensorType, made: Layout, need: Layout, *, trained: bool
    ) -> StrategyCost:
        """What it costs to bring a tensor from one layout to another, and, if ``trained``, its gradient
        back; communication is impossible where there is no way.
        """

    def redistributions(
        self, tensor: TensorType, made: Sequence[Layout], need: Sequence[Layout], *, trained: bool
    ) -> CostTable:
        """The same for every pair of layouts, as a table."""
        costs = [
            self.redistribution(tensor, start, target, trained=trained) for start in made for target in need
        ]
        return CostTable.of(costs, (len(made), len(need)))

    @abstractmethod
    def collective(self, unit: str, num_bytes: float) -> float:
        """What it costs the ranks along a unit to exchange so many bytes, for recursive bisection."""
