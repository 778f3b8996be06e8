"""Another order of dims."""

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
from simcluster.work import Kernel, Work

Labels = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Transpose(Operator):
    """Input dim ``order[i]`` becomes output dim i; ``labels`` names the input's dims.

    It is a copy: a framework that reads through strides instead writes its products over the dims as they lie
    (``Matmul`` takes them in any order) and needs no transpose.
    """

    labels: Labels
    order: tuple[int, ...]

    kind: ClassVar[str] = "transpose"
    family: ClassVar[str] = "copy"

    @property
    def _result(self) -> Labels:
        return tuple(self.labels[place] for place in self.order)

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """The sizes in the new order."""
        (x,) = inputs
        return (TensorType(tuple(x.shape[place] for place in self.order), x.dtype),)

    def dims(self) -> Dims:
        """Linear; every split survives."""
        return Dims((self.labels,), (self._result,), unit_dims(self.labels), linear=(frozenset({0}),))

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """One copy."""
        return (memory_bound(Kernel.COPY, inputs, outputs, accumulate=accumulate),)

    def gradient(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grads: Sequence[Gradient | None]
    ) -> tuple[Gradient | None, ...]:
        """Back into the old order."""
        if grads[0] is None:
            return (None,)
        back = tuple(self.order.index(place) for place in range(len(self.order)))
        return tape.emit("grad", Transpose(self._result, back), [grads[0]])

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The transposed array."""
        return (np.ascontiguousarray(inputs[0].transpose(self.order)),)
