"""Pipeline schedules, and the chunks of those that have several on a stage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from functools import cache

from simcluster.plan import schedule_kinds
from simcluster.search.space.plan_choice import PLAIN, PlanChoice
from simcluster.search.space.search_key import NumberKey, SpaceSetting, WordKey, divisors

INTERLEAVED = "interleaved"
"""What 1F1B is called with several chunks on a stage."""


class ScheduleKey(WordKey):
    """Kinds of schedules."""

    kind = "schedule"
    title = "every schedule that needs no more than chunks, and the scenario's own"
    order = 5

    @property
    def words(self) -> dict[str, str]:
        """The kinds that a number of chunks describes."""
        known = (kind for kind in schedule_kinds() if _taken(kind) <= {"chunks", "pairs", "vocabulary"})
        return {kind: kind for kind in known}

    def choices(
        self, setting: SpaceSetting, choice: PlanChoice, values: Sequence[str]
    ) -> Iterator[PlanChoice]:
        """The kinds, with two chunks where they have some; one stage needs none."""
        if choice.num_stages == 1:
            yield replace(choice, schedule=PLAIN, chunks=1, slices=0, pairs=False)
            return
        for kind in self.texts(values, tuple(self.words), choice.schedule):
            is_own = kind == choice.schedule
            usual = 2 if "chunks" in _taken(kind) else 1
            chunks, slices = (choice.chunks, choice.slices) if is_own else (usual, 0)
            if chunks * choice.num_stages <= setting.num_layers:
                changed = replace(choice, schedule=kind, chunks=chunks, slices=slices, stages=())
                yield replace(changed, pairs=choice.pairs and "pairs" in _taken(kind))


class ChunksKey(NumberKey):
    """Chunks of the model on every stage."""

    kind = "chunks"
    title = "one, and as many as divide the layers of a stage: 1F1B becomes interleaved"
    order = 6
    is_usual = True

    def choices(
        self, setting: SpaceSetting, choice: PlanChoice, values: Sequence[str]
    ) -> Iterator[PlanChoice]:
        """Numbers of chunks that divide the layers of a stage."""
        if choice.num_stages == 1 or (choice.schedule != PLAIN and "chunks" not in _taken(choice.schedule)):
            yield choice
            return
        whole, left = divmod(setting.num_layers, choice.num_stages)
        usual = [1] if left else divisors(whole)
        for chunks in map(int, values) if values else usual:
            if chunks * choice.num_stages > setting.num_layers:
                continue
            if chunks == 1 and choice.schedule in (PLAIN, INTERLEAVED):
                yield replace(choice, schedule=PLAIN, chunks=1)
            elif chunks > 1:
                kind = INTERLEAVED if choice.schedule == PLAIN else choice.schedule
                yield replace(choice, schedule=kind, chunks=chunks, stages=())


@cache
def _taken(kind: str) -> frozenset[str]:
    """What a user may choose of a schedule."""
    return frozenset(field.name for field in fields(schedule_kinds()[kind]))
