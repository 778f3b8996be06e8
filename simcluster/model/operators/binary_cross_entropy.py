"""Cross entropy of yes and no: one logit per sample, summed over all and scaled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Dims
from simcluster.model.graph import (
    Array,
    Gradient,
    Labels,
    MemoryBound,
    MemoryPass,
    Region,
    Tape,
    TensorType,
    unit_dims,
)
from simcluster.model.operators.activation import sigmoid
from simcluster.work import DType, Kernel


@dataclass(frozen=True, slots=True)
class BinaryCrossEntropy(MemoryBound):
    """``scale * sum(log(1 + exp(x)) - t x)`` for logits x and targets t of 0 and 1.

    ``scale`` is one over the *global* number of samples, so that no rank ever divides by its own. A sample
    whose target is -1 is padding and does not count.
    """

    scale: float
    labels: Labels = ("batch",)

    kind: ClassVar[str] = "binary_cross_entropy"
    family: ClassVar[str] = "loss"
    launch: ClassVar[MemoryPass] = MemoryPass(Kernel.REDUCTION, flops_per_element=4, accumulates=False)

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """A scalar."""
        return (TensorType((), DType.FP32),)

    def dims(self) -> Dims:
        """A sum over samples."""
        return Dims((self.labels,) * 2, ((),), unit_dims(self.labels), neutral=((1, -1.0),))

    def gradient(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grads: Sequence[Gradient | None]
    ) -> tuple[Gradient | None, ...]:
        """Reads logits and targets again."""
        (factor,) = grads
        if not isinstance(factor, float):
            raise NotImplementedError(
                "binary cross entropy is the loss itself or a multiple, not a part of one"
            )
        return (*tape.emit("grad", BinaryCrossEntropyGrad(self.scale * factor, self.labels), inputs), None)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The scaled loss."""
        x, targets = inputs
        losses = np.logaddexp(x.dtype.type(0), x) - targets.astype(x.dtype) * x
        counted = np.where(targets >= 0, losses, x.dtype.type(0))
        return (np.asarray(counted.sum() * self.scale, dtype=x.dtype),)


@dataclass(frozen=True, slots=True)
class BinaryCrossEntropyGrad(MemoryBound):
    """``scale * (sigmoid(x) - t)``."""

    scale: float
    labels: Labels = ("batch",)

    kind: ClassVar[str] = "binary_cross_entropy_grad"
    family: ClassVar[str] = "loss"
    launch: ClassVar[MemoryPass] = MemoryPass(Kernel.ELEMENTWISE, flops_per_element=4, accumulates=False)

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Like the logits."""
        return (inputs[0],)

    def dims(self) -> Dims:
        """Every logit stands alone."""
        return Dims((self.labels,) * 2, (self.labels,), unit_dims(self.labels))

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The gradient of every logit."""
        x, targets = inputs
        return ((sigmoid(x) - targets.astype(x.dtype)) * x.dtype.type(self.scale),)
