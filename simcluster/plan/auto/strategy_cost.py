"""What strategies cost: values, and how they are weighted."""

from __future__ import annotations

from simcluster.deferred_dataclass import dataclass

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
