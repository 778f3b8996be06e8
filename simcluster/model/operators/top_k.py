"""The largest elements along a dim, and where they stood."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from simcluster.layout import Dims
from simcluster.model.graph import (
    Array,
    Gradient,
    Operator,
    Region,
    Tape,
    TensorType,
    memory_bound,
    unit_dims,
)
from simcluster.work import DType, Kernel, Work

Labels = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Top(Operator):
    """What both share: the dims of x, the place of the searched one, its length, how many are found."""

    labels: Labels
    place: int
    length: int
    count: int

    @property
    def _found(self) -> Labels:
        name = f"{self.labels[self.place]}.top"
        return (*self.labels[: self.place], name, *self.labels[self.place + 1 :])

    def _whole(self, *names: str) -> tuple[tuple[str, str], ...]:
        reason = "the search compares all elements inside the operator"
        return (*((name, reason) for name in names), *unit_dims(self.labels))

    def _sized(self, shape: Sequence[int], size: int) -> tuple[int, ...]:
        return (*shape[: self.place], size, *shape[self.place + 1 :])


@dataclass(frozen=True, slots=True)
class TopK(_Top):
    """The ``count`` largest (or smallest) elements in order, and their ids; of equals the first first."""

    largest: bool = True

    kind: ClassVar[str] = "top_k"
    family: ClassVar[str] = "reduction"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Values like x, and int64 ids."""
        (x,) = inputs
        shape = self._sized(x.shape, self.count)
        return (TensorType(shape, x.dtype), TensorType(shape, DType.INT64))

    def dims(self) -> Dims:
        """What is searched stays whole."""
        whole = self._whole(self.labels[self.place], self._found[self.place])
        return Dims((self.labels,), (self._found,) * 2, whole)

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """One pass over x."""
        return (memory_bound(Kernel.REDUCTION, inputs, outputs),)

    def gradient(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grads: Sequence[Gradient | None]
    ) -> tuple[Gradient | None, ...]:
        """Puts the values' gradients back to where they stood."""
        if grads[0] is None:
            return (None,)
        operator = TopKGrad(self.labels, self.place, self.length, self.count)
        return tape.emit("grad", operator, [outputs[1], grads[0]])

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The values and their ids."""
        (x,) = inputs
        order = np.argsort(-x if self.largest else x, axis=self.place, kind="stable")
        ids = np.take(order, np.arange(self.count), axis=self.place)
        return (np.take_along_axis(x, ids, axis=self.place), ids)


class TopKGrad(_Top):
    """The gradient of x from the ids and the gradients of what was found."""

    __slots__ = ()

    kind: ClassVar[str] = "top_k_grad"
    family: ClassVar[str] = "gather"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Like x."""
        _, grad = inputs
        return (TensorType(self._sized(grad.shape, self.length), grad.dtype),)

    def dims(self) -> Dims:
        """Linear in the gradients; what was found is reduced."""
        whole = self._whole(self.labels[self.place])
        return Dims((self._found,) * 2, (self.labels,), whole, linear=(frozenset({1}),))

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """Writes all of x's gradient, zeros mostly."""
        return (memory_bound(Kernel.GATHER_SCATTER, inputs[::-1], outputs, accumulate=accumulate),)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The gradients where the elements stood, zeros elsewhere."""
        ids, grad = inputs
        found = np.zeros(self._sized(grad.shape, self.length), dtype=grad.dtype)
        np.put_along_axis(found, ids, grad, axis=self.place)
        return (found,)
