"""What a search from Python gives."""

from __future__ import annotations

from typing import Any

from simcluster.deferred_dataclass import dataclass
from simcluster.scenario import Scenario
from simcluster.search.planner import SearchResult, SimulatedPlan
from simcluster.search.report import search_document, search_html, search_text, verdict


@dataclass(frozen=True)
class FoundPlan:
    """The best plan of a space, and what it took to find it; ``print`` shows the table."""

    result: SearchResult
    """All of it: plans that were simulated, those that were bounded, times of the search."""

    @property
    def best(self) -> SimulatedPlan | None:
        """The plan with its figures: seconds of a step, bytes; None if none fits."""
        return self.result.best

    @property
    def scenario(self) -> Scenario | None:
        """The scenario with it; None if none fits."""
        return self.result.scenario

    @property
    def is_proven(self) -> bool:
        """Whether no plan of the space can be better."""
        return self.result.is_proven

    @property
    def document(self) -> dict[str, Any]:
        """All that ``simcluster search --json`` writes, SI units."""
        return search_document(self.result)

    def __repr__(self) -> str:
        return f"FoundPlan: {verdict(self.result)}"

    def __str__(self) -> str:
        """The table, and why others lost."""
        return search_text(self.result)

    def _repr_html_(self) -> str:
        return search_html(self.result)
