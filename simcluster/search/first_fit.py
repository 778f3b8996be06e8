"""Plans that are found by simulating candidates."""

from __future__ import annotations

from collections.abc import Callable

from simcluster.simulation import simulate
from simcluster.tuning import Attempt, FirstFit, SearchRequest, search_first_fit


def find_first_fit(start: SearchRequest, watch: Callable[[Attempt], None] | None = None) -> FirstFit:
    """Tries candidates until one fits; ``watch`` is called with each.

    Raises ScenarioError for names or sizes that are wrong.
    """
    return search_first_fit(start, simulate, watch)
