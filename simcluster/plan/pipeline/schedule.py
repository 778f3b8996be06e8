"""Pipeline schedules: rules for the order of actions on every stage (DESIGN 4.5)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache
from typing import ClassVar

from simcluster.deferred_dataclass import dataclass
from simcluster.plan.pipeline.action import (
    BACKWARD,
    FORWARD,
    INPUTS,
    RECOMPUTE,
    WEIGHTS,
    Action,
    Timetable,
    parse,
    render,
)
from simcluster.plan.pipeline.schedule_validation import PATH, validate_schedule
from simcluster.plan.pipeline.virtual_stages import VirtualStages

__all__ = [
    "BACKWARD",
    "FORWARD",
    "INPUTS",
    "PATH",
    "RECOMPUTE",
    "WEIGHTS",
    "Action",
    "Schedule",
    "Timetable",
    "activation_peaks",
    "has_split_backward",
    "parse",
    "render",
    "validate_schedule",
]


@dataclass(frozen=True)
class Schedule(ABC):
    """A rule for the order of actions on every stage; one file in ``schedules/`` each.

    Its fields are what a user may choose, with the scenario's keys as names.
    """

    kind: ClassVar[str]

    @abstractmethod
    def stage(self, stage: int, num_stages: int, num_micro_batches: int) -> tuple[Action, ...]:
        """The actions of one stage, in order."""

    def chain(self, num_stages: int) -> VirtualStages:
        """The virtual stages and their order over the stages."""
        return VirtualStages.round_robin(num_stages)

    def overlaps(self, num_stages: int) -> bool:
        """Whether p2p transfers have to overlap with kernels, since two stages would wait for each other
        otherwise.
        """
        return self.chain(num_stages).is_v_shape

    @property
    def num_slices(self) -> int:
        """Slices of a sequence, each of which goes through the pipeline by itself."""
        return 1

    def timetable(self, num_stages: int, num_micro_batches: int) -> Timetable:
        """The actions of every stage; PlanError if they cannot run."""
        return _validated(self, num_stages, num_micro_batches)


@lru_cache(maxsize=4)
def _validated(schedule: Schedule, num_stages: int, num_micro_batches: int) -> Timetable:
    """The timetable of a schedule: searches plan with one again and again."""
    timetable = tuple(schedule.stage(stage, num_stages, num_micro_batches) for stage in range(num_stages))
    layers = tuple(tuple(action for action in actions if action.chunk >= 0) for actions in timetable)
    validate_schedule(layers, num_micro_batches, schedule.chain(num_stages), schedule.num_slices)
    return timetable


def forward_only(num_stages: int, num_passes: int, num_micro_batches: int) -> Timetable:
    """The timetable of inference: all micro-batches forward, one pass after another, each a chunk."""
    passes = range(num_passes)
    actions = tuple(
        Action(FORWARD, micro_batch, chunk) for chunk in passes for micro_batch in range(num_micro_batches)
    )
    return (actions,) * num_stages


def has_split_backward(timetable: Timetable, *, shared: bool = False) -> bool:
    """Whether any backward is split into input and weight gradients; of layers, or of what is ``shared`` by
    all stages.
    """
    return any(
        half.kind == WEIGHTS and (half.chunk < 0) is shared
        for actions in timetable
        for action in actions
        for half in action.parts
    )


def activation_peaks(timetable: Timetable) -> list[int]:
    """Per stage the largest number of activations alive at once, counted by micro-batch, chunk and slice."""
    peaks = []
    for actions in timetable:
        alive = most = 0
        halves = [half for action in actions for half in action.parts if half.chunk >= 0]
        split = {half.unit for half in halves if half.kind == WEIGHTS}
        for half in halves:
            last = WEIGHTS if half.unit in split else BACKWARD
            alive += (half.kind == FORWARD) - (half.kind == last)
            most = max(most, alive)
        peaks.append(most)
    return peaks
