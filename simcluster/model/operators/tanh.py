"""Hyperbolic tangent: the activation of BERT's pooler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from simcluster.layout import Dims
from simcluster.model.operator import Array, Operator, Region, Tape, TensorType, memory_bound
from simcluster.work import Kernel, Work

Labels = tuple[str, ...]


class _Tanh(Operator):
    """One pass over memory."""

    family: ClassVar[str] = "pointwise"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Like the first input."""
        return (inputs[0],)

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """One elementwise kernel."""
        return (memory_bound(Kernel.ELEMENTWISE, inputs, outputs),)


@dataclass(frozen=True, slots=True)
class Tanh(_Tanh):
    """``tanh(x)``."""

    labels: Labels

    kind: ClassVar[str] = "tanh"

    def dims(self) -> Dims:
        """Nothing partial passes."""
        return Dims((self.labels,), (self.labels,))

    def gradient(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grads: Sequence[str | None]
    ) -> tuple[str | None, ...]:
        """Reads the output again."""
        if grads[0] is None:
            return (None,)
        return tape.emit("grad", TanhGrad(self.labels), [outputs[0], grads[0]])

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The activation."""
        return (np.tanh(inputs[0]),)


@dataclass(frozen=True, slots=True)
class TanhGrad(_Tanh):
    """``dx`` of y = tanh(x) from y and dy."""

    labels: Labels

    kind: ClassVar[str] = "tanh_grad"

    def dims(self) -> Dims:
        """Linear in dy."""
        return Dims((self.labels,) * 2, (self.labels,), linear=(frozenset({1}),))

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """``(1 - y^2) dy``."""
        y, dy = inputs
        return ((1 - y * y) * dy,)
