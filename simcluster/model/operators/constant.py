"""An array that is written in the model: a mask, positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Dims
from simcluster.model.graph import Array, Labels, Operator, Region, TensorType, unit_dims
from simcluster.work import DType, Work

_FORMATS: dict[DType, np.dtype[Any]] = {DType.INT64: np.dtype(np.int64), DType.UINT8: np.dtype(np.uint8)}
_NUMBERS: np.dtype[Any] = np.dtype(np.float32)


@dataclass(frozen=True, slots=True)
class Constant(Operator):
    """An array of this shape, as its bytes: of int64, of masks as uint8, of numbers as fp32.

    Frameworks hold it ready in memory: nothing is launched.
    """

    labels: Labels
    shape: tuple[int, ...]
    dtype: DType
    data: bytes

    kind: ClassVar[str] = "constant"
    family: ClassVar[str] = "constant"

    @classmethod
    def of(cls, labels: Labels, array: Array, dtype: DType) -> Constant:
        """The operator that gives ``array``, as a tensor of ``dtype``."""
        data = np.ascontiguousarray(array, dtype=_FORMATS.get(dtype, _NUMBERS)).tobytes()
        return cls(labels, array.shape, dtype, data)

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """The whole array."""
        return (TensorType(self.shape, self.dtype),)

    def dims(self) -> Dims:
        """Every split: a rank has the part it needs."""
        return Dims((), (self.labels,), unit_dims(self.labels))

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """None."""
        return ()

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The local part."""
        whole = np.frombuffer(self.data, dtype=_FORMATS.get(self.dtype, _NUMBERS)).reshape(self.shape)
        sizes = [region.size(name, size) for name, size in zip(self.labels, self.shape, strict=True)]
        starts = [region.start(name) for name in self.labels]
        part = whole[tuple(slice(start, start + size) for start, size in zip(starts, sizes, strict=True))]
        local = np.zeros(sizes, dtype=whole.dtype)
        local[tuple(map(slice, part.shape))] = part
        return (local,)
