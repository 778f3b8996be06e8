"""The largest elements along a dim, and where they stood."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Dims
from simcluster.model.graph import Array, Gradient, Labels, MemoryPass, Region, Tape, TensorType, memory_bound
from simcluster.model.operators.view import View, resized
from simcluster.work import DType, Kernel, Work


@dataclass(frozen=True, slots=True)
class _Top(View):
    """What both share: the dims of x, the place of the searched one, its length, how many are found."""

    place: int
    length: int
    count: int

    @property
    def _results(self) -> Labels:
        return self.labels_with(self.place, f"{self.labels[self.place]}.top")

    def _whole(self, *names: str) -> tuple[tuple[str, str], ...]:
        return self.unsplittable("the search compares all elements inside the operator", *names)


@dataclass(frozen=True, slots=True)
class TopK(_Top):
    """The ``count`` largest (or smallest) elements in order, and their ids; of equals the first first."""

    largest: bool = True

    kind: ClassVar[str] = "top_k"
    family: ClassVar[str] = "reduction"
    launch: ClassVar[MemoryPass] = MemoryPass(Kernel.REDUCTION, accumulates=False)

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Values like x, and int64 ids."""
        (x,) = inputs
        shape = resized(x.shape, self.place, self.count)
        return (TensorType(shape, x.dtype), TensorType(shape, DType.INT64))

    def dims(self) -> Dims:
        """What is searched stays whole."""
        whole = self._whole(self.labels[self.place], self._results[self.place])
        return Dims((self.labels,), (self._results,) * 2, whole)

    def input_gradients(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grad: Gradient
    ) -> tuple[Gradient | None, ...]:
        """Puts the values' gradients back to where they stood."""
        operator = TopKGrad(self.labels, self.place, self.length, self.count)
        return tape.emit("grad", operator, [outputs[1], grad])

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The values and their ids."""
        (x,) = inputs
        order = np.argsort(-x if self.largest else x, axis=self.place, kind="stable")
        ids = np.take(order, np.arange(self.count), axis=self.place)
        return (np.take_along_axis(x, ids, axis=self.place), ids)


class TopKGrad(_Top):
    """The gradient of x from the ids and the gradients of what was found."""

    kind: ClassVar[str] = "top_k_grad"
    family: ClassVar[str] = "gather"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Like x."""
        _, grad = inputs
        return (TensorType(resized(grad.shape, self.place, self.length), grad.dtype),)

    def dims(self) -> Dims:
        """Linear in the gradients; what was found is reduced."""
        whole = self._whole(self.labels[self.place])
        return Dims((self._results,) * 2, (self.labels,), whole, linear=(frozenset({1}),))

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """Writes all of x's gradient, zeros mostly."""
        return (memory_bound(Kernel.GATHER_SCATTER, inputs[::-1], outputs, accumulate=accumulate),)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The gradients where the elements stood, zeros elsewhere."""
        ids, grad = inputs
        spread = np.zeros(resized(grad.shape, self.place, self.length), dtype=grad.dtype)
        np.put_along_axis(spread, ids, grad, axis=self.place)
        return (spread,)
