"""Layers of pipeline stages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simcluster.search.space.plan_choice import PlanChoice
from simcluster.search.space.search_key import SearchKey, SpaceSetting


class StagesKey(SearchKey):
    """Layers of the stages: the default, or balanced by the time and the memory of layers.

    Which balance is best depends on costs that are known later: see ``search.bounds.stage_balance``.
    """

    kind = "stages"
    title = "the default, and layers balanced by their time and memory"
    order = 10

    def choices(
        self, setting: SpaceSetting, choice: PlanChoice, values: Sequence[str]
    ) -> Iterator[PlanChoice]:
        """The default."""
        yield choice
