"""Gates: counters that instructions wait for, and that others count up when they end."""

from __future__ import annotations

from simcluster.deferred_dataclass import dataclass

OWN = -1
"""The rank of a gate that every rank has one of."""


@dataclass(frozen=True, slots=True)
class StepGate:
    """A counter of a step: what happens in a step counts for its own, whoever is in which step.

    ``rank`` is the one that it belongs to, ``OWN`` that of the rank which runs the instruction; None: there
    is one for all.
    """

    name: str
    rank: int | None = None

    def __str__(self) -> str:
        return self.name if self.rank is None else f"{self.name} of rank {self.rank}"


@dataclass(frozen=True, slots=True)
class GateWait:
    """What an instruction waits for: until a gate has counted so many, in the step that was so many ago.

    Before the first step everything has been counted.
    """

    gate: StepGate
    count: int
    steps_ago: int = 0
