"""Shares of the batch on a cluster of unequal devices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simcluster.search.space.plan_choice import PlanChoice
from simcluster.search.space.search_key import SearchKey, SpaceSetting


class BatchSharesKey(SearchKey):
    """Micro-batches of the ranks of the data axis: equally many, or as many as their devices are fast.

    How fast they are is known from costs later: see ``PlanBounds.shared``. What the scenario says is kept.
    """

    kind = "batch_shares"
    title = "equal shares of the batch, and, on unequal devices, shares by their speed"
    order = 11

    def choices(
        self, setting: SpaceSetting, choice: PlanChoice, values: Sequence[str]
    ) -> Iterator[PlanChoice]:
        """The plan as it is."""
        yield choice
