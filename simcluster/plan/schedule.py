"""A schedule is text: per stage a list of actions (DESIGN 4.5).

    F3      forward of micro-batch 3          I3 W3   its backward in two halves: inputs, weights
    B3      backward of micro-batch 3         R3      recompute
    F3c1    chunk 1 of the stage              F3s2    sequence slice 2
    F3&B1   two actions overlapped

Text and object are inverses of each other.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from simcluster.errors import PlanError

FORWARD, BACKWARD = "F", "B"

_ACTION = re.compile(r"([FBIWR])(\d+)(?:c(\d+))?(?:s(\d+))?")


@dataclass(frozen=True, slots=True)
class Action:
    """One thing a stage does with one micro-batch; ``beside`` is an action that overlaps it."""

    kind: str
    micro_batch: int
    chunk: int = 0
    slice: int = 0
    beside: Action | None = None

    @classmethod
    def parse(cls, text: str) -> Action:
        """The action written ``text``; PlanError with the accepted form otherwise."""
        first, *rest = text.strip().split("&")
        match = _ACTION.fullmatch(first)
        if match is None or len(rest) > 1:
            raise PlanError(
                f"'{text}' is no action",
                hint="write F3, B3, I3, W3 or R3, with c1 (chunk), s2 (slice), F3&B1",
            )
        kind, micro_batch, chunk, part = match.groups()
        beside = cls.parse(rest[0]) if rest else None
        return cls(kind, int(micro_batch), int(chunk or 0), int(part or 0), beside)

    def __str__(self) -> str:
        chunk = f"c{self.chunk}" if self.chunk else ""
        part = f"s{self.slice}" if self.slice else ""
        beside = f"&{self.beside}" if self.beside else ""
        return f"{self.kind}{self.micro_batch}{chunk}{part}{beside}"


Timetable = tuple[tuple[Action, ...], ...]
"""Per stage, the actions in order."""


class Schedule(ABC):
    """A rule that gives every stage its actions; one file in ``schedules/`` each."""

    kind: ClassVar[str]

    @abstractmethod
    def stage(self, stage: int, num_stages: int, num_micro_batches: int) -> tuple[Action, ...]:
        """The actions of one stage in order."""

    def timetable(self, num_stages: int, num_micro_batches: int) -> Timetable:
        """The actions of every stage, checked."""
        found = tuple(self.stage(stage, num_stages, num_micro_batches) for stage in range(num_stages))
        check(found, num_micro_batches)
        return found


def parse(text: str) -> Timetable:
    """The timetable written one line per stage, actions apart by blanks."""
    return tuple(tuple(Action.parse(word) for word in line.split()) for line in text.strip().splitlines())


def render(timetable: Timetable) -> str:
    """The text ``parse`` reads."""
    return "\n".join(" ".join(map(str, actions)) for actions in timetable)


def check(timetable: Timetable, num_micro_batches: int) -> None:
    """PlanError unless every micro-batch goes once each way through every stage, in an order that can run."""
    wanted = Counter(Action(kind, i) for kind in (FORWARD, BACKWARD) for i in range(num_micro_batches))
    for stage, actions in enumerate(timetable):
        if Counter(actions) != wanted:
            raise PlanError(
                f"stage {stage} must run F and B once for each of {num_micro_batches} micro-batches, "
                f"but runs {' '.join(map(str, actions))}",
                path="parallel.schedule",
            )
    stuck = _run(timetable)
    if stuck:
        listed = "; ".join(f"stage {stage} at {action}" for stage, action in stuck)
        raise PlanError(f"the schedule cannot run to its end: {listed}", path="parallel.schedule")


def _run(timetable: Timetable) -> Sequence[tuple[int, Action]]:
    """Runs the actions by their dependencies; returns where each unfinished stage is stuck."""
    last = len(timetable) - 1
    done: set[tuple[int, str, int]] = set()
    position = [0] * len(timetable)

    def ready(stage: int, action: Action) -> bool:
        index = action.micro_batch
        if action.kind == FORWARD:
            return stage == 0 or (stage - 1, FORWARD, index) in done
        mine = (stage, FORWARD, index) in done
        return mine and (stage == last or (stage + 1, BACKWARD, index) in done)

    moved = True
    while moved:
        moved = False
        for stage, actions in enumerate(timetable):
            while position[stage] < len(actions) and ready(stage, actions[position[stage]]):
                action = actions[position[stage]]
                done.add((stage, action.kind, action.micro_batch))
                position[stage] += 1
                moved = True
    return [
        (stage, actions[position[stage]])
        for stage, actions in enumerate(timetable)
        if position[stage] < len(actions)
    ]
