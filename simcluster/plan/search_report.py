"""How a search found the strategies of a plan."""

from __future__ import annotations

from simcluster.deferred_dataclass import dataclass
from simcluster.plan.rules import StrategyRule


@dataclass(frozen=True)
class SearchReport:
    """How the strategies of a plan were found, and what the search thinks they cost."""

    search_mode: str
    """Which search it was."""
    cost_model: str
    """Whose costs were minimised."""
    unit: str
    """What costs are in."""
    cost: float
    """The objective of all operators and redistributions."""
    compute: float
    """Its computation, not weighted."""
    communication: float
    """Its communication, not weighted."""
    memory: float
    """Bytes of the stage that needs most, as the search counts them."""
    num_searched: int
    """Operators whose strategy was found."""
    num_fixed: int
    """Operators whose strategy the user gave."""
    num_candidates: int
    """Strategies of all different operators that the search chose from; 0 of one that lists none."""
    bound: float | None = None
    """What no choice can be cheaper than, if that is known."""
    notes: tuple[str, ...] = ()
    """What the user should know of how it went."""
    eliminations: tuple[tuple[str, int], ...] = ()
    """How often every rule of elimination was applied."""
    rules: tuple[StrategyRule, ...] = ()
    """What was found, as rules for the operators that were searched."""

    @property
    def gap(self) -> float | None:
        """By how much the cost may be above the least one, as a share of the bound; None if not known."""
        if self.bound is None:
            return None
        return max(self.cost - self.bound, 0.0) / self.bound if self.bound > 0 else 0.0
