"""Which gates an instruction of a class waits for and counts up."""

from __future__ import annotations

from collections.abc import Sequence

from simcluster.deferred_dataclass import dataclass
from simcluster.program import OWN, Instruction, RankClasses, StepGate


@dataclass(frozen=True, slots=True)
class ClassGates:
    """The gate that a class waits at in an instruction, with the count and the steps ago (no gate: None), and
    those that it counts up when it is over, each with the number of ranks that it stands for.
    """

    waits: StepGate | None
    count: int
    steps_ago: int
    opens: Sequence[tuple[StepGate, int]]

    @classmethod
    def of(cls, classes: RankClasses, index: int, instruction: Instruction) -> ClassGates | None:
        """Those of an instruction of a class; None if there are none."""
        wait = instruction.gate
        if wait is None and not instruction.opens:
            return None
        rank, size = classes.representatives[index], classes.sizes[index]
        opens = tuple((_resolved(gate, rank), size) for gate in instruction.opens)
        if wait is None:
            return cls(None, 0, 0, opens)
        return cls(_resolved(wait.gate, rank), wait.count, wait.steps_ago, opens)


def _resolved(gate: StepGate, rank: int) -> StepGate:
    """The gate as the engine knows it: that of a rank, if it is its own."""
    return StepGate(gate.name, rank) if gate.rank == OWN else gate


def gate_reason(gate: StepGate, counted: int, count: int) -> str:
    """What keeps somebody at a gate, for the report of a run that cannot end."""
    return f"gate '{gate}', which has counted {counted} of {count}"
