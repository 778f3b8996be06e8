"""Ids as rows of zeros with a one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Dims
from simcluster.model.graph import Array, Labels, Operator, Region, TensorType, unit_dims
from simcluster.work import DType, Kernel, Work


@dataclass(frozen=True, slots=True)
class OneHot(Operator):
    """``depth`` numbers for every id: one at the id's place, zero elsewhere; the last dim is ``depth``.

    With it split, a rank writes the places that it holds. In values it is fp32, which holds both exactly.
    """

    labels: Labels
    depth: int
    dtype: DType

    kind: ClassVar[str] = "one_hot"
    family: ClassVar[str] = "pointwise"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """[ids, depth]."""
        return (TensorType((*inputs[0].shape, self.depth), self.dtype),)

    def dims(self) -> Dims:
        """Every split."""
        return Dims((self.labels,), ((*self.labels, "depth"),), unit_dims(self.labels))

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """One elementwise kernel."""
        (made,) = outputs
        read = inputs[0].num_bytes
        return (Work(Kernel.ELEMENTWISE, self.dtype, made.num_elements, read, made.num_bytes),)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """Zeros and ones."""
        (ids,) = inputs
        places = region.start("depth") + np.arange(region.size("depth", self.depth))
        return ((ids[..., None] == places).astype(np.float32),)
