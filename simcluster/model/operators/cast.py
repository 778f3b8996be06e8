"""Casts: the same numbers in another floating type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Dims
from simcluster.model.graph import Array, Region, TensorType
from simcluster.model.operators.pointwise import Pointwise
from simcluster.work import DType


@dataclass(frozen=True, slots=True)
class Cast(Pointwise):
    """X of type ``source`` in the type ``target``; values keep their precision, bytes and rates change."""

    source: DType
    target: DType

    kind: ClassVar[str] = "cast"
    family: ClassVar[str] = "cast"

    @classmethod
    def of(cls, kind: TensorType, target: DType) -> Cast:
        """The cast of a tensor of this type, whatever its dims are called."""
        return cls(tuple(f"dim{index}" for index in range(len(kind.shape))), kind.dtype, target)

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Like the input, in the other type."""
        return (TensorType(inputs[0].shape, self.target),)

    def dims(self) -> Dims:
        """Every element for itself; a partial sum may be rounded before it is reduced."""
        return Dims((self.labels,), (self.labels,), linear=(frozenset({0}),))

    def adjoint(self) -> Cast:
        """The gradient is cast back; nothing is kept."""
        return Cast(self.labels, self.target, self.source)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The same numbers."""
        return (inputs[0].copy(),)
