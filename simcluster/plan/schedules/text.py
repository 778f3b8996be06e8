"""A schedule that the scenario writes out: a line per stage, in the grammar of ``plan.pipeline.action``."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError
from simcluster.plan.pipeline import Action, Schedule, Timetable, VirtualStages, parse

FOLDED = "folded"


@dataclass(frozen=True)
class TextSchedule(Schedule):
    """The actions that it writes, with chunks ``wrapped`` (round-robin) or ``folded`` (V-shaped) over the
    stages.
    """

    kind: ClassVar[str] = "text"

    text: str
    placement: str = "wrapped"

    @cached_property
    def written(self) -> Timetable:
        """The actions of every stage; PlanError for another text."""
        return parse(self.text)

    @property
    def num_slices(self) -> int:
        """As many as the actions name."""
        return 1 + max(half.slice for line in self.written for action in line for half in action.parts)

    def chain(self, num_stages: int) -> VirtualStages:
        """As many chunks as the actions name; two if folded."""
        chunks = 1 + max(half.chunk for line in self.written for action in line for half in action.parts)
        if self.placement != FOLDED:
            return VirtualStages.round_robin(num_stages, chunks)
        if chunks != 2:
            raise PlanError(
                f"a folded pipeline has 2 chunks on every stage, but the schedule names {chunks}",
                path="parallel.schedule.text",
                hint="write F0 and F0c1, or placement: wrapped",
            )
        return VirtualStages.v_shape(num_stages)

    def stage(self, stage: int, num_stages: int, num_micro_batches: int) -> tuple[Action, ...]:
        """The line of the stage."""
        if len(self.written) != num_stages:
            raise PlanError(
                f"the schedule has {len(self.written)} lines, but the pipeline {num_stages} stages",
                path="parallel.schedule.text",
                hint="write one line per stage",
            )
        return self.written[stage]
