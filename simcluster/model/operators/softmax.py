"""The masked, scaled softmax of attention that is written as separate kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from simcluster.layout import Dims
from simcluster.model.operator import Array, Operator, Region, Tape, TensorType, memory_bound
from simcluster.model.scores import LABELS, Scores
from simcluster.work import Kernel, Work

_WHOLE = (("keys", "the softmax sums over all keys inside the operator"),)


class _Softmax(Operator):
    """What forward and gradient share: one pass over rows, the type of the first operand."""

    family: ClassVar[str] = "softmax"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Like the scores."""
        return (inputs[0],)

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """One row reduction kernel over the full square: masked scores are read too."""
        return (memory_bound(Kernel.REDUCTION, inputs, outputs, flops_per_element=5),)


@dataclass(frozen=True, slots=True)
class Softmax(_Softmax):
    """``softmax(scale * scores)`` over keys, masked as ``rule`` says.

    Scores are [batch, heads, group, seq, keys].
    It keeps its output for its gradient, 2 bytes per score in 16-bit types (arXiv 2205.05198).
    """

    scale: float = 1.0
    rule: Scores = Scores()

    kind: ClassVar[str] = "softmax"

    def dims(self) -> Dims:
        """Keys stay whole; queries know where they are."""
        return Dims((LABELS,), (LABELS,), whole=_WHOLE)

    def gradient(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grads: Sequence[str | None]
    ) -> tuple[str | None, ...]:
        """Reads the output."""
        if grads[0] is None:
            return (None,)
        return tape.emit("grad", SoftmaxGrad(self.scale), [outputs[0], grads[0]])

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """Weights that add up to one for every query."""
        (x,) = inputs
        scores = self.rule.masked(x * x.dtype.type(self.scale), region)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return (weights / weights.sum(axis=-1, keepdims=True),)


@dataclass(frozen=True, slots=True)
class SoftmaxGrad(_Softmax):
    """The scores' gradient from the weights and their gradient."""

    scale: float = 1.0

    kind: ClassVar[str] = "softmax_grad"

    def dims(self) -> Dims:
        """Linear in dy."""
        return Dims((LABELS,) * 2, (LABELS,), whole=_WHOLE, linear=(frozenset({1}),))

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """``scale * w (dy - sum(w dy))``; what is masked has no weight and gets no gradient."""
        weights, dy = inputs
        inner = (weights * dy).sum(axis=-1, keepdims=True)
        return (weights * (dy - inner) * weights.dtype.type(self.scale),)
