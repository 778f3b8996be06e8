"""Elementwise operators: sums and biases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Dims
from simcluster.model.graph import Array, Gradient, Labels, MemoryBound, MemoryPass, Region, Tape, TensorType
from simcluster.model.operators.reduction import SumTo
from simcluster.work import Kernel


class PointwiseKernel(MemoryBound):
    """What elementwise operators share: the type of the first operand, one pass over memory."""

    family: ClassVar[str] = "pointwise"
    anywhere: ClassVar[bool] = True
    launch: ClassVar[MemoryPass] = MemoryPass(Kernel.ELEMENTWISE)

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """One output like the first input."""
        return (inputs[0],)


@dataclass(frozen=True, slots=True)
class Pointwise(PointwiseKernel):
    """Base of those whose operands have the same dims, ``labels``; of some, the first operand alone."""

    labels: Labels


@dataclass(frozen=True, slots=True)
class Add(Pointwise):
    """The sum of ``count`` tensors of one shape: residual connections, gradients that meet."""

    count: int = 2

    kind: ClassVar[str] = "add"

    def dims(self) -> Dims:
        """Jointly linear in all operands."""
        every = frozenset(range(self.count))
        return Dims((self.labels,) * self.count, (self.labels,), linear=(every,))

    def input_gradients(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grad: Gradient
    ) -> tuple[Gradient | None, ...]:
        """The gradient of a sum is the gradient of each term."""
        return (grad,) * self.count

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The sum."""
        return (np.asarray(sum(inputs[1:], inputs[0])),)


class Accumulate(Pointwise):
    """A gradient as it is, on its way into the buffer it is added to: one kernel that only adds."""

    kind: ClassVar[str] = "accumulate"
    family: ClassVar[str] = "accumulate"

    def dims(self) -> Dims:
        """Linear."""
        return Dims((self.labels,), (self.labels,), linear=(frozenset({0}),))

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The input."""
        return (inputs[0].copy(),)


@dataclass(frozen=True, slots=True)
class Bias(Pointwise):
    """``x + b`` with b over some of x's dims."""

    bias: Labels

    kind: ClassVar[str] = "bias"
    family: ClassVar[str] = "bias"

    def dims(self) -> Dims:
        """A bias is added once: nothing partial passes."""
        return Dims((self.labels, self.bias), (self.labels,))

    def input_gradients(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grad: Gradient
    ) -> tuple[Gradient | None, ...]:
        """The gradient passes to x; b's is its sum over the other dims."""
        db = None
        if tape.needs_gradient(inputs[1]):
            (db,) = tape.emit("bgrad", SumTo(self.labels, self.bias), [grad])
        return (grad, db)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The sum, with b broadcast over the dims it lacks."""
        x, b = inputs
        shape = [x.shape[i] if name in self.bias else 1 for i, name in enumerate(self.labels)]
        return (x + b.reshape(shape),)
