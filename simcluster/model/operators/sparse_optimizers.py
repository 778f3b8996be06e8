"""Optimizers for tables of which every step looks up a few rows: LazyAdam and FTRL.

Where the gradient comes from lookups alone, only the rows that were looked up are changed (``SparseUpdate``);
elsewhere they are dense rules like others.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.model.graph import Array
from simcluster.model.operators.optimizer import Adam, Update


@dataclass(frozen=True, slots=True)
class LazyAdam(Adam):
    """Adam of the rows that were looked up: the moments of others do not decay (MindSpore's LazyAdam)."""

    kind: ClassVar[str] = "lazy_adam"
    sparse: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Ftrl(Update):
    """FTRL-proximal (McMahan et al., "Ad click prediction", KDD 2013), learning-rate power -1/2.

    ``n += g^2``, ``z += g - (sqrt(n) - sqrt(n before)) / lr w``, and the weight is 0 where ``|z|`` is at most
    ``l1``, else ``(sign(z) l1 - z) / (sqrt(n) / lr + 2 l2)``. The state holds what has been added to the
    initial ``accumulator``.
    """

    accumulator: float = 1.0
    l1: float = 1e-8
    l2: float = 1e-8

    kind: ClassVar[str] = "ftrl"
    states: ClassVar[tuple[str, ...]] = ("accumulator", "linear")
    sparse: ClassVar[bool] = True

    def step(self, weights: Array, grad: Array, states: tuple[Array, ...], step: int) -> tuple[Array, ...]:
        """New weights from the two states alone."""
        grad = grad + self.weight_decay * weights
        before, linear = states
        added = before + grad * grad
        root = np.sqrt(self.accumulator + added)
        linear = linear + grad - (root - np.sqrt(self.accumulator + before)) / self.learning_rate * weights
        moved = (np.sign(linear) * self.l1 - linear) / (root / self.learning_rate + 2 * self.l2)
        return (np.where(np.abs(linear) > self.l1, moved, 0 * weights), added, linear)
