"""Picking tokens out of a sequence: those at given positions (a masked language model's), or the first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Dims
from simcluster.model.graph import Array, Gradient, Operator, Region, Tape, TensorType, memory_bound
from simcluster.work import Kernel, Work

_IDS = ("batch", "picked")
_ROWS = ("batch", "picked", "hidden")
_X = ("batch", "seq", "hidden")
_FIRST = ("batch", "hidden")


@dataclass(frozen=True, slots=True)
class _Gather(Operator):
    """What picking and putting back share: only the rows that are named move."""

    length: int

    family: ClassVar[str] = "gather"


class Gather(_Gather):
    """Rows of x [batch, length, hidden] at positions [batch, picked].

    With the sequence split, a rank answers only for the positions it holds and gives zeros for the others:
    the result is a partial sum.
    """

    kind: ClassVar[str] = "gather"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """[batch, picked, hidden]."""
        ids, x = inputs
        return (TensorType((*ids.shape, x.shape[-1]), x.dtype),)

    def dims(self) -> Dims:
        """Linear in x; seq is reduced."""
        return Dims((_IDS, _X), (_ROWS,), linear=(frozenset({1}),))

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """Reads and writes one row per position."""
        return (memory_bound(Kernel.GATHER_SCATTER, (outputs[0], inputs[0]), outputs),)

    def input_gradients(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grad: Gradient
    ) -> tuple[Gradient | None, ...]:
        """Puts the rows' gradients back; what was not picked has none."""
        ids, x = inputs
        if not tape.needs_gradient(x):
            return (None, None)
        (grad,) = tape.emit("grad", GatherGrad(self.length), [ids, grad])
        return (None, grad)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The rows, zeros where another rank holds them."""
        ids, x = inputs
        local, held = region.local("seq", ids, x.shape[1])
        rows = np.take_along_axis(x, local[..., None], axis=1)
        return (np.where(held[..., None], rows, x.dtype.type(0)),)


class GatherGrad(_Gather):
    """The gradient of x [batch, length, hidden] from the positions and their rows' gradients."""

    kind: ClassVar[str] = "gather_grad"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Like x."""
        batch, _, hidden = inputs[1].shape
        return (TensorType((batch, self.length, hidden), inputs[1].dtype),)

    def dims(self) -> Dims:
        """Linear in the rows' gradients; what is picked is reduced."""
        return Dims((_IDS, _ROWS), (_X,), linear=(frozenset({1}),))

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """Writes all of x's gradient, zeros mostly."""
        return (memory_bound(Kernel.GATHER_SCATTER, inputs[::-1], outputs, accumulate=accumulate),)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """Rows added up where they were picked."""
        ids, grad = inputs
        length = region.size("seq", self.length)
        total = np.zeros((ids.shape[0], length, grad.shape[-1]), dtype=grad.dtype)
        local, held = region.local("seq", ids, length)
        batch = np.broadcast_to(np.arange(ids.shape[0])[:, None], ids.shape)
        np.add.at(total, (batch[held], local[held]), grad[held])
        return (total,)


class First(_Gather):
    """The first token of every sequence: x [batch, length, hidden] to [batch, hidden].

    With the sequence split, the rank that holds the first token gives it and the others zeros.
    """

    kind: ClassVar[str] = "first"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """[batch, hidden]."""
        batch, _, hidden = inputs[0].shape
        return (TensorType((batch, hidden), inputs[0].dtype),)

    def dims(self) -> Dims:
        """Linear; seq is reduced."""
        return Dims((_X,), (_FIRST,), linear=(frozenset({0}),))

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """Copies one row per sequence."""
        return (memory_bound(Kernel.GATHER_SCATTER, outputs, outputs),)

    def input_gradients(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grad: Gradient
    ) -> tuple[Gradient | None, ...]:
        """The row's gradient, before zeros."""
        if not tape.needs_gradient(inputs[0]):
            return (None,)
        return tape.emit("grad", FirstGrad(self.length), [grad])

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The row, or zeros where another rank holds it."""
        (x,) = inputs
        return (x[:, 0].copy() if region.start("seq") == 0 else np.zeros_like(x[:, 0]),)


class FirstGrad(_Gather):
    """The gradient of x [batch, length, hidden] from that of its first row."""

    kind: ClassVar[str] = "first_grad"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Like x."""
        batch, hidden = inputs[0].shape
        return (TensorType((batch, self.length, hidden), inputs[0].dtype),)

    def dims(self) -> Dims:
        """Linear."""
        return Dims((_FIRST,), (_X,), linear=(frozenset({0}),))

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """Writes all of x's gradient, zeros mostly."""
        return (memory_bound(Kernel.GATHER_SCATTER, inputs[::-1], outputs, accumulate=accumulate),)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The row, and zeros."""
        (grad,) = inputs
        batch, hidden = grad.shape
        total = np.zeros((batch, region.size("seq", self.length), hidden), dtype=grad.dtype)
        if region.start("seq") == 0:
            total[:, 0] = grad
        return (total,)
