"""What the executions of a class are, as columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simcluster.engine import LinkedPart

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class ExecutionColumns:
    """The columns of ``BlockExecution``, over all steps."""

    code: Ints
    """Number of the code."""
    instance: Ints
    """Number of the instance."""
    action: Ints
    """Number of the action of the schedule."""
    micro_batch: Ints
    """The micro-batch; -1: once per step."""
    kept: Ints
    """The micro-batch whose kept weights it uses; -1: none."""
    step: Ints
    """The step."""
    instances: list[str]
    """The names of instances, in the order in which they occur."""
    actions: list[str]
    """The texts of actions, likewise."""

    @classmethod
    def of(cls, linked: LinkedPart) -> ExecutionColumns:
        """The columns of all steps."""
        part, steps = linked.one_step, linked.steps
        instances = list(dict.fromkeys(instance for _, instance in part.pairs))
        numbers = {name: number for number, name in enumerate(instances)}
        instance = np.array([numbers[name] for _, name in part.pairs], dtype=np.int64)[part.pair]
        return cls(
            np.tile(part.code, steps),
            np.tile(instance, steps),
            np.tile(part.action, steps),
            np.tile(part.micro_batch, steps),
            np.tile(part.weights_of_micro_batch, steps),
            np.repeat(np.arange(steps), len(part)),
            instances,
            list(part.actions),
        )
