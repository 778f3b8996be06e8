"""Another order of dims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Dims
from simcluster.model.graph import Array, Labels, Operator, Region, TensorType, unit_dims
from simcluster.model.operators.view import View


@dataclass(frozen=True, slots=True)
class Transpose(View):
    """Input dim ``order[i]`` becomes output dim i; ``labels`` names the input's dims.

    It is a copy: a framework that reads through strides instead writes its products over the dims as they lie
    (``Matmul`` takes them in any order) and needs no transpose.
    """

    order: tuple[int, ...]

    kind: ClassVar[str] = "transpose"

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

    def adjoint(self) -> Operator:
        """Back into the old order."""
        return Transpose(self._result, tuple(self.order.index(place) for place in range(len(self.order))))

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The transposed array."""
        return (np.ascontiguousarray(inputs[0].transpose(self.order)),)
