"""What the ranks held against what one device computed, norm-wise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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

    Updates are compared relative to the learning rate: what a wrong gradient changes is small against the
    weights themselves.
    """
    found: list[Comparison] = []
    mesh = replay.program.mesh
    before = {name: replay.source.parameter(name, _kind(replay, name)) for name in expected[0].weights}
    for step, values in enumerate(expected):
        largest = max((_largest(grad) for grad in values.gradients.values()), default=0.0)
        floor = FLOOR * largest
        loss = np.asarray(values.loss)
        found.append(_compared(step, "loss", "loss", replay.losses[step], loss, mesh, floor, tolerance))
        for name, gradient in values.gradients.items():
            held = _of(replay.gradients, step, name)
            found.append(_compared(step, "gradient", name, held, gradient, mesh, floor, tolerance))
        for name, weights in values.weights.items():
            # What an update adds, in units of the learning rate, so that equal steps are near one.
            held = _of(replay.weights, step, name)
            shifted = [_shifted(each, before[name], mesh, learning_rate) for each in held]
            change = (weights - before[name]) / learning_rate
            found.append(_compared(step, "update", name, shifted, change, mesh, FLOOR, tolerance))
        before = dict(values.weights)
    return found


def _kind(replay: Replay, name: str) -> "TensorType":
    return next(
        each.whole for stage in replay.program.stages for each in stage.residents if each.origin == name
    )
