"""Another number format for the same values: weights kept in fp32 that meet bf16 activations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from simcluster.layout import Dims
from simcluster.model.operator import Array, Operator, Region, TensorType, memory_bound
from simcluster.work import DType, Kernel, Work


@dataclass(frozen=True, slots=True)
class Cast(Operator):
    """The input in another number format; elementwise, in whatever layout it lies."""

    labels: tuple[str, ...]
    dtype: DType

    kind: ClassVar[str] = "cast"
    family: ClassVar[str] = "cast"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """The input's shape in the new format."""
        return (TensorType(inputs[0].shape, self.dtype),)

    def dims(self) -> Dims:
        """Every element for itself; a partial sum may be rounded before it is reduced."""
        return Dims((self.labels,), (self.labels,), linear=(frozenset({0}),))

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """One pass over memory."""
        return (memory_bound(Kernel.ELEMENTWISE, inputs, outputs, accumulate=accumulate),)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The same values: verify computes in one floating type throughout."""
        return (np.array(inputs[0]),)
