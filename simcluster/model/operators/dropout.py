"""Dropout: a byte per element is kept for backward, and the mask is the same wherever it is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Dims
from simcluster.model.graph import Array, Gradient, Labels, Region, Tape, TensorType
from simcluster.model.operators.pointwise import Pointwise
from simcluster.work import DType


def dropout_mask(region: Region, label: str, labels: Labels, shape: Sequence[int], rate: float) -> Array:
    """The mask of a local array: 1 where an element is kept, 0 for a share ``rate`` of all."""
    return (region.uniform(label, labels, shape) >= rate).astype(np.uint8)


@dataclass(frozen=True, slots=True)
class Dropout(Pointwise):
    """Zeroes a share ``rate`` of x and scales the rest by ``1 / (1 - rate)``; outputs y and the mask.

    ``label`` tells apart the masks of one block; copies that recompute a forward have the same.
    """

    rate: float
    label: str

    kind: ClassVar[str] = "dropout"
    anywhere: ClassVar[bool] = False

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Y like x, and a byte per element."""
        return (inputs[0], TensorType(inputs[0].shape, DType.UINT8))

    def dims(self) -> Dims:
        """The mask belongs to the whole value: nothing partial passes."""
        return Dims((self.labels,), (self.labels, self.labels), zero_preserving=((0, frozenset({0})),))

    def input_gradients(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grad: Gradient
    ) -> tuple[Gradient | None, ...]:
        """Reads the mask."""
        return tape.emit("grad", DropoutGrad(self.labels, self.rate), [grad, outputs[1]])

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The scaled rest, and which elements it is."""
        (x,) = inputs
        mask = dropout_mask(region, self.label, self.labels, x.shape, self.rate)
        return (x * mask * x.dtype.type(1 / (1 - self.rate)), mask)


@dataclass(frozen=True, slots=True)
class DropoutGrad(Pointwise):
    """``dx`` from dy and the mask."""

    rate: float

    kind: ClassVar[str] = "dropout_grad"

    def dims(self) -> Dims:
        """Linear in dy."""
        return Dims((self.labels,) * 2, (self.labels,), linear=(frozenset({0}),))

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """Dy where the mask is one, scaled as the forward was."""
        dy, mask = inputs
        return (dy * mask * dy.dtype.type(1 / (1 - self.rate)),)
