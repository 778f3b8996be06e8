"""Layer norm and RMS norm over the last dim, with the row statistics their gradients read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Dims
from simcluster.model.graph import Array, Gradient, Labels, MemoryBound, MemoryPass, Region, Tape, TensorType
from simcluster.work import DType, Kernel


@dataclass(frozen=True, slots=True)
class _Norm(MemoryBound):
    """What norms share: the normalised dim is the last one and stays whole."""

    labels: Labels
    eps: float = 1e-5

    family: ClassVar[str] = "norm"
    anywhere: ClassVar[bool] = True
    launch: ClassVar[MemoryPass] = MemoryPass(Kernel.REDUCTION, flops_per_element=5, accumulates=False)

    def _whole(self) -> tuple[tuple[str, str], ...]:
        return ((self.labels[-1], "its mean is taken inside the operator"),)


class RmsNorm(_Norm):
    """``x / rms(x) * w``; outputs y and the reciprocal rms of each row (fp32)."""

    kind: ClassVar[str] = "rms_norm"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Y like x, and one statistic per row."""
        x = inputs[0]
        return (x, TensorType(x.shape[:-1], DType.FP32))

    def dims(self) -> Dims:
        """The hidden dim stays whole."""
        rows = self.labels[:-1]
        operands, vanishing = (self.labels, self.labels[-1:]), ((0, frozenset({0})),)
        return Dims(operands, (self.labels, rows), unsplittable=self._whole(), zero_preserving=vanishing)

    def input_gradients(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grad: Gradient
    ) -> tuple[Gradient | None, ...]:
        """Reads x and its row statistics."""
        x, weight = inputs
        return tape.emit("grad", RmsNormGrad(self.labels, self.eps), [x, outputs[1], weight, grad])

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The normalised rows."""
        x, weight = inputs
        reciprocal = 1 / np.sqrt((x * x).mean(axis=-1) + self.eps)
        return (x * reciprocal[..., None] * weight, reciprocal)


class RmsNormGrad(_Norm):
    """``dx, dw`` from x, the reciprocal rms, w and dy."""

    kind: ClassVar[str] = "rms_norm_grad"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Like x and like w."""
        return (inputs[0], inputs[2])

    def dims(self) -> Dims:
        """Linear in dy; dw sums over the rows."""
        rows, hidden = self.labels[:-1], self.labels[-1:]
        return Dims(
            (self.labels, rows, hidden, self.labels),
            (self.labels, hidden),
            unsplittable=self._whole(),
            linear=(frozenset({3}),),
        )

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """``dx = r (w dy - xhat mean(w dy xhat))`` and ``dw = sum(dy xhat)`` over rows."""
        x, reciprocal, weight, dy = inputs
        scale = reciprocal[..., None]
        normal = x * scale
        inner = (weight * dy * normal).mean(axis=-1, keepdims=True)
        rows = tuple(range(x.ndim - 1))
        return (scale * (weight * dy - normal * inner), np.asarray((dy * normal).sum(axis=rows)))


@dataclass(frozen=True, slots=True)
class LayerNorm(_Norm):
    """``(x - mean) / std * w + b``; outputs y, and mean and reciprocal std of each row (fp32).

    Without ``bias`` there is no b.
    """

    bias: bool = True

    kind: ClassVar[str] = "layer_norm"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Y like x, and two statistics per row."""
        x = inputs[0]
        row = TensorType(x.shape[:-1], DType.FP32)
        return (x, row, row)

    def dims(self) -> Dims:
        """The hidden dim stays whole."""
        rows, hidden = self.labels[:-1], self.labels[-1:]
        weights = (hidden,) * (1 + self.bias)
        return Dims((self.labels, *weights), (self.labels, rows, rows), unsplittable=self._whole())

    def input_gradients(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grad: Gradient
    ) -> tuple[Gradient | None, ...]:
        """Reads x and its row statistics."""
        operands = [inputs[0], outputs[1], outputs[2], inputs[1], grad]
        return tape.emit("grad", LayerNormGrad(self.labels, self.eps, self.bias), operands)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The normalised rows."""
        x, weight, *biases = inputs
        mean = x.mean(axis=-1)
        centred = x - mean[..., None]
        reciprocal = 1 / np.sqrt((centred * centred).mean(axis=-1) + self.eps)
        scaled = centred * reciprocal[..., None] * weight
        return (sum(biases, scaled), mean, reciprocal)


@dataclass(frozen=True, slots=True)
class LayerNormGrad(_Norm):
    """``dx, dw`` and, with ``bias``, ``db`` from x, mean, reciprocal std, w and dy."""

    bias: bool = True

    kind: ClassVar[str] = "layer_norm_grad"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Like x, and like w for every weight."""
        return (inputs[0], *(inputs[3],) * (1 + self.bias))

    def dims(self) -> Dims:
        """Linear in dy; dw and db sum over the rows."""
        rows, hidden = self.labels[:-1], self.labels[-1:]
        return Dims(
            (self.labels, rows, rows, hidden, self.labels),
            (self.labels, *(hidden,) * (1 + self.bias)),
            unsplittable=self._whole(),
            linear=(frozenset({4}),),
        )

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """``dx = r (g - mean(g) - xhat mean(g xhat))`` with g = w dy; dw and db sum over rows."""
        x, mean, reciprocal, weight, dy = inputs
        scale = reciprocal[..., None]
        normal = (x - mean[..., None]) * scale
        grown = weight * dy
        inner = (grown * normal).mean(axis=-1, keepdims=True)
        dx = scale * (grown - grown.mean(axis=-1, keepdims=True) - normal * inner)
        rows = tuple(range(x.ndim - 1))
        made = (dx, np.asarray((dy * normal).sum(axis=rows)))
        return (*made, np.asarray(dy.sum(axis=rows))) if self.bias else made
