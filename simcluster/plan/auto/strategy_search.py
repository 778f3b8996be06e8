"""What every search of strategies is given, and what it gives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Strategy
from simcluster.plan.auto.cost_graph import CostGraph

PATH = "parallel.auto"
"""The key path of the settings."""


@dataclass(frozen=True, slots=True)
class SearchProblem:
    """A network with the strategies that its operators could have, and what they cost."""

    costs: CostGraph
    """The operators of all stages with their candidates and costs."""
    capacity: float
    """Bytes that a stage may need on a device."""
    epsilon: float = 0.1
    """How far from the best an answer under a memory limit may be."""
    short_lists: bool = False
    """Whether lists of costs have at most 1 / epsilon entries."""
    device_memory: str = ""
    """What a device of the cluster has, in words, for messages."""


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """The strategies that a search chose."""

    strategies: tuple[Strategy, ...]
    """The strategy of every operator."""
    bound: float | None = None
    """What no choice of strategies can be cheaper than; None of a search that knows no such bound."""
    notes: tuple[str, ...] = ()
    """What the user should know of how it went."""
    num_candidates: int = 0
    """Strategies of all different operators that it chose from; 0 of a search that lists none."""
    eliminations: tuple[tuple[str, int], ...] = ()
    """How often every rule of elimination was applied."""


class StrategySearch(ABC):
    """One way to choose strategies for the operators of a network."""

    kind: ClassVar[str]
    """What ``parallel.search_mode`` calls it."""

    @abstractmethod
    def search(self, problem: SearchProblem) -> SearchOutcome:
        """The strategies; PlanError where there is no answer, with the operator or the figures."""
