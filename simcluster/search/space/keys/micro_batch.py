"""Sizes of micro-batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from simcluster.search.space.plan_choice import PlanChoice
from simcluster.search.space.search_key import NumberKey, SpaceSetting

_MOST = 16


class MicroBatchKey(NumberKey):
    """Samples of a micro-batch."""

    kind = "micro_batch"
    title = f"powers of two up to {_MOST}, and the scenario's own, that divide the samples of a rank"
    order = 4
    is_usual = True

    def choices(
        self, setting: SpaceSetting, choice: PlanChoice, values: Sequence[str]
    ) -> Iterator[PlanChoice]:
        """The sizes that divide the samples of a data-parallel rank."""
        usual = {1, 2, 4, 8, _MOST, choice.micro_batch}
        samples = setting.samples_of_rank(choice)
        for size in sorted(map(int, values) if values else usual):
            if samples and samples % size == 0:
                yield replace(choice, micro_batch=size)
