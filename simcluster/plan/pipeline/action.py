"""Actions of a pipeline schedule, and their text form: a line of them for every stage (DESIGN 4.5).

    F3      forward of micro-batch 3          I3 W3   its backward in two halves: inputs, weights
    B3      backward of micro-batch 3         R3      what it computes again, ahead of its backward
    F3c1    chunk 1 of the stage              F3s2    sequence slice 2
    F3&B1   actions overlapped: two, or more
    F3v     the stage's slice of the output layer, where all stages share the vocabulary
    F3e     its slice of the embedding

Text and object are inverses of each other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError
from simcluster.model import INPUT_LAYER, OUTPUT_LAYER

FORWARD, BACKWARD = "F", "B"
INPUTS, WEIGHTS = "I", "W"
RECOMPUTE = "R"

_ACTION = re.compile(r"([FBIWR])(\d+)(?:c(\d+)|([ve]))?(?:s(\d+))?")
_ON_ALL_STAGES = {OUTPUT_LAYER: "v", INPUT_LAYER: "e"}
_CHUNKS = {letter: chunk for chunk, letter in _ON_ALL_STAGES.items()}


@dataclass(frozen=True, slots=True)
class Action:
    """One thing a stage does with one micro-batch."""

    kind: str
    """F, B, I, W or R."""
    micro_batch: int
    """Which of the step's, from 0."""
    chunk: int = 0
    """Of the model on this stage; or ``OUTPUT_LAYER``, ``INPUT_LAYER``."""
    slice: int = 0
    """Of the sequence."""
    overlapped_with: Action | None = None
    """The action that runs at the same time; it may be overlapped with a further one."""

    @classmethod
    def parse(cls, text: str) -> Action:
        """The action in this text, such as ``F3c1``; PlanError with the accepted form otherwise."""
        first, _, rest = text.strip().partition("&")
        match = _ACTION.fullmatch(first)
        if match is None or text.strip().endswith("&"):
            raise PlanError(
                f"'{text}' is not an action",
                hint="write F3, B3, I3, W3 or R3, with c1 (chunk), s2 (slice), F3&B1",
            )
        kind, micro_batch, number, letter, part = match.groups()
        other = cls.parse(rest) if rest else None
        chunk = _CHUNKS[letter] if letter else int(number or 0)
        return cls(kind, int(micro_batch), chunk, int(part or 0), other)

    def __str__(self) -> str:
        chunk = _ON_ALL_STAGES.get(self.chunk, f"c{self.chunk}" if self.chunk else "")
        part = f"s{self.slice}" if self.slice else ""
        other = f"&{self.overlapped_with}" if self.overlapped_with else ""
        return f"{self.kind}{self.micro_batch}{chunk}{part}{other}"

    @property
    def unit(self) -> tuple[int, int, int]:
        """Micro-batch, chunk and slice."""
        return self.micro_batch, self.chunk, self.slice

    @property
    def parts(self) -> tuple[Action, ...]:
        """The single actions that run at the same time, this one first."""
        if self.overlapped_with is None:
            return (self,)
        alone = Action(self.kind, self.micro_batch, self.chunk, self.slice)
        return (alone, *self.overlapped_with.parts)

    def overlapping(self, others: Sequence[Action]) -> Action:
        """The action overlapped with others."""
        other = others[0].overlapping(others[1:]) if others else None
        return Action(self.kind, self.micro_batch, self.chunk, self.slice, other)


Timetable = tuple[tuple[Action, ...], ...]
"""Per stage, the actions in order."""


def parse(text: str) -> Timetable:
    """The timetable in this text: a line per stage, actions separated by blanks; PlanError for
    another text.
    """
    if not text.strip():
        raise PlanError("there is no action", hint="write a line for each stage, such as F0 F1 B0 B1")
    return tuple(tuple(Action.parse(word) for word in line.split()) for line in text.strip().splitlines())


def render(timetable: Timetable) -> str:
    """The text of a timetable, which ``parse`` reads."""
    return "\n".join(" ".join(map(str, actions)) for actions in timetable)
