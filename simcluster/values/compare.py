"""What the ranks held against what one device computed, norm-wise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from simcluster.layout import Mesh
from simcluster.model import Array
from simcluster.values.exchange import local_part
from simcluster.values.oracle import StepValues
from simcluster.values.replay import Held, Replay

FLOOR = 1e-6
"""Tensors smaller than this share of the model's largest gradient are compared against that share."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """``max|a - b| <= relative * max(max|b|, floor)``."""

    relative: float

    def holds(self, error: float) -> bool:
        """Whether a relative error is small enough; NaN never is."""
        return error <= self.relative


@dataclass(frozen=True, slots=True)
class Comparison:
    """One tensor of one step: its relative error over all ranks, and the ranks that disagree."""

    step: int
    what: str
    name: str
    error: float
    ranks: tuple[int, ...]

    @property
    def agrees(self) -> bool:
        """Whether no rank disagrees."""
        return not self.ranks


def compare(
    replay: Replay, expected: Sequence[StepValues], learning_rate: float, tolerance: Tolerance
) -> list[Comparison]:
    """Loss, every gradient and every updated parameter of every step.

    Updates are compared in units of the learning rate: what a wrong gradient changes is small against the
    weights themselves.
    """
    judge = _Judge(replay.program.mesh, tolerance)
    found: list[Comparison] = []
    before = dict(replay.source.parameters)
    for step, values in enumerate(expected):
        largest = max((_largest(grad) for grad in values.gradients.values()), default=0.0)
        floor = FLOOR * largest
        losses = list(replay.losses[step].values())
        found.append(judge.compare(step, "loss", "loss", losses, np.asarray(values.loss), floor))
        for name, gradient in values.gradients.items():
            held = replay.gradients[step, name]
            found.append(judge.compare(step, "gradient", name, held, gradient, floor))
        for name, weights in values.weights.items():
            change = (weights - before[name]) / learning_rate
            held = judge.changes(replay.weights[step, name], before[name], learning_rate)
            found.append(judge.compare(step, "update", name, held, change, FLOOR))
        before = dict(values.weights)
    return found


def _largest(array: Array) -> float:
    return float(np.abs(array).max()) if array.size else 0.0


@dataclass(frozen=True, slots=True)
class _Judge:
    mesh: Mesh
    tolerance: Tolerance

    def compare(
        self, step: int, what: str, name: str, held: Sequence[Held], whole: Array, floor: float
    ) -> Comparison:
        """One tensor; if no rank holds it at all, every rank disagrees."""
        scale = max(_largest(whole), floor) or 1.0
        worst = 0.0 if held else float("inf")
        wrong = [] if held else list(range(self.mesh.num_ranks))
        for each in held:
            wanted = local_part(whole, each.layout.reduced, self.mesh, each.rank)
            error = _largest(each.part - wanted) / scale
            worst = max(worst, error) if error == error else float("nan")
            if not self.tolerance.holds(error):
                wrong.append(each.rank)
        return Comparison(step, what, name, worst, tuple(wrong))

    def changes(self, held: Sequence[Held], before: Array, learning_rate: float) -> list[Held]:
        """What each rank's part has moved, in units of the learning rate."""
        return [
            replace(
                each,
                part=(each.part - local_part(before, each.layout.reduced, self.mesh, each.rank))
                / learning_rate,
            )
            for each in held
        ]
