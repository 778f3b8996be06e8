"""What strategies cost: the interface of cost models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from simcluster.layout import Layout, Strategy
from simcluster.model import TensorType
from simcluster.plan.auto.operator_graph import OperatorKind

IMPOSSIBLE = float("inf")


@dataclass(frozen=True, slots=True)
class StrategyCost:
    """What an operator, or a redistribution, costs on one device of its stage."""

    compute: float
    """Computation, in the cost model's unit."""
    communication: float
    """Communication as far as it is not hidden, in the cost model's unit."""
    memory: float = 0.0
    """Bytes that stay allocated until the backward, or for good."""


FREE = StrategyCost(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class CostWeights:
    """What the sum that is minimised is made of: ``alpha`` computation and ``beta`` communication, of which
    gradients of parameters count only the share ``gamma``.
    """

    alpha: float
    beta: float
    gamma: float
    training: bool = True
    """Whether there is a backward."""

    def objective(self, cost: StrategyCost) -> float:
        """The sum that is minimised."""
        # A weight of zero makes nothing possible that is not.
        if cost.communication == IMPOSSIBLE:
            return IMPOSSIBLE
        return self.alpha * cost.compute + self.beta * cost.communication


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

    @abstractmethod
    def collective(self, unit: str, num_bytes: float) -> float:
        """What it costs the ranks along a unit to exchange so many bytes, for recursive bisection."""
