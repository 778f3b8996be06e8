"""The masked, scaled softmax of attention that is written as separate kernels; softmax over any one dim."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Dims
from simcluster.model.attributes import LABELS, Scores
from simcluster.model.graph import (
    Array,
    Decomposition,
    Gradient,
    Labels,
    MemoryBound,
    MemoryPass,
    Operator,
    Region,
    Reorder,
    Rewrite,
    Tape,
    TensorType,
)
from simcluster.model.operators.elementwise import Elementwise
from simcluster.model.operators.min_max import Extreme
from simcluster.model.operators.reduction import SumTo
from simcluster.work import Kernel

_WHOLE = (("keys", "the softmax sums over all keys inside the operator"),)


class _Softmax(MemoryBound):
    """What forward and gradient share: one pass over rows, the type of the first operand."""

    family: ClassVar[str] = "softmax"
    launch: ClassVar[MemoryPass] = MemoryPass(Kernel.REDUCTION, flops_per_element=5, accumulates=False)

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Like the scores."""
        return (inputs[0],)


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
        return Dims((LABELS,), (LABELS,), unsplittable=_WHOLE)

    def input_gradients(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grad: Gradient
    ) -> tuple[Gradient | None, ...]:
        """Reads the output."""
        return tape.emit("grad", SoftmaxGrad(self.scale), [outputs[0], grad])

    def rewrite(self, request: Rewrite) -> Operator | None:
        """A query sees the keys that stand before it."""
        if not isinstance(request, Reorder):
            return None
        return replace(self, rule=replace(self.rule, order=request.order))

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
        return Dims((LABELS,) * 2, (LABELS,), unsplittable=_WHOLE, linear=(frozenset({1}),))

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """``scale * w (dy - sum(w dy))``; what is masked has no weight and gets no gradient."""
        weights, dy = inputs
        inner = (weights * dy).sum(axis=-1, keepdims=True)
        return (weights * (dy - inner) * weights.dtype.type(self.scale),)


@dataclass(frozen=True, slots=True)
class _Over(_Softmax):
    """What softmax over a dim and its gradient share: the dim is split by primitives only."""

    labels: Labels
    dim: str
    log: bool = False

    @property
    def _kept(self) -> Labels:
        return tuple(name for name in self.labels if name != self.dim)

    @property
    def _place(self) -> int:
        return self.labels.index(self.dim)

    @property
    def _whole(self) -> tuple[tuple[str, str], ...]:
        return ((self.dim, "the softmax sums over it inside the operator"),)

    def _of(self, function: str, *operands: Labels) -> Elementwise:
        return Elementwise(function, operands or (self.labels,), self.labels)


class SoftmaxOver(_Over):
    """Softmax, or its logarithm, over one dim of a tensor; it keeps its output for its gradient."""

    __slots__ = ()

    kind: ClassVar[str] = "softmax_over"

    def dims(self) -> Dims:
        """The dim stays whole."""
        return Dims((self.labels,), (self.labels,), unsplittable=self._whole)

    def input_gradients(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grad: Gradient
    ) -> tuple[Gradient | None, ...]:
        """Reads the output."""
        operator = SoftmaxOverGrad(self.labels, self.dim, self.log)
        return tape.emit("grad", operator, [outputs[0], grad])

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """Weights that add up to one along the dim, or their logarithms."""
        (x,) = inputs
        shifted = x - x.max(axis=self._place, keepdims=True)
        total = np.exp(shifted).sum(axis=self._place, keepdims=True)
        return (shifted - np.log(total) if self.log else np.exp(shifted) / total,)

    def decompose(self, split: frozenset[str]) -> Decomposition | None:
        """Maximum, difference, exponential, sum, and what joins them."""
        if split != {self.dim}:
            return None
        labels, kept = self.labels, self._kept
        both = (labels, kept)
        parts = [
            ("max", Extreme(labels, kept), ("in0",), ("max",)),
            ("shifted", self._of("sub", *both), ("in0", "max"), ("shifted",)),
            ("exp", self._of("exp"), ("shifted",), ("exp",)),
            ("sum", SumTo(labels, kept), ("exp",), ("sum",)),
        ]
        if self.log:
            logarithm = Elementwise("log", (kept,), kept)
            parts += [
                ("log", logarithm, ("sum",), ("log",)),
                ("join", self._of("sub", *both), ("shifted", "log"), ("out0",)),
            ]
        else:
            parts += [("join", self._of("div", *both), ("exp", "sum"), ("out0",))]
        return Decomposition(tuple(parts))


class SoftmaxOverGrad(_Over):
    """The gradient of x from the softmax, or its logarithm, and dy."""

    __slots__ = ()

    kind: ClassVar[str] = "softmax_over_grad"

    def dims(self) -> Dims:
        """Linear in dy."""
        return Dims((self.labels,) * 2, (self.labels,), unsplittable=self._whole, linear=(frozenset({1}),))

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """``y (dy - sum(y dy))``; of the logarithm ``dy - exp(y) sum(dy)``."""
        y, dy = inputs
        if self.log:
            return (dy - np.exp(y) * dy.sum(axis=self._place, keepdims=True),)
        return (y * (dy - (y * dy).sum(axis=self._place, keepdims=True)),)

    def decompose(self, split: frozenset[str]) -> Decomposition | None:
        """The sum apart from what it is taken of and from."""
        if split != {self.dim}:
            return None
        labels, kept = self.labels, self._kept
        both = (labels, kept)
        if self.log:
            return Decomposition(
                (
                    ("sum", SumTo(labels, kept), ("in1",), ("sum",)),
                    ("exp", self._of("exp"), ("in0",), ("exp",)),
                    ("part", self._of("mul", *both), ("exp", "sum"), ("part",)),
                    ("join", self._of("sub", labels, labels), ("in1", "part"), ("out0",)),
                )
            )
        return Decomposition(
            (
                ("product", self._of("mul", labels, labels), ("in0", "in1"), ("product",)),
                ("sum", SumTo(labels, kept), ("product",), ("sum",)),
                ("difference", self._of("sub", *both), ("in1", "sum"), ("difference",)),
                ("join", self._of("mul", labels, labels), ("in0", "difference"), ("out0",)),
            )
        )
