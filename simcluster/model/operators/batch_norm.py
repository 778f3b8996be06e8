"""Batch norm over pictures [batch, channels, height, width]: statistics of a channel over samples and pixels.

Frameworks normalise by the samples that a device has, unless statistics are synchronised. So the mathematics
has groups: every ``group`` samples share statistics. A batch that is split into whole groups needs no
communication; where a group is split, sums travel between two passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from simcluster.layout import Dims
from simcluster.model.attributes import CHANNELS, PICTURE
from simcluster.model.graph import (
    Array,
    Decomposition,
    Gradient,
    GroupBatch,
    Operator,
    Region,
    Rewrite,
    Tape,
    TensorType,
)
from simcluster.model.operators.batch_norm_passes import (
    BatchNormalise,
    BatchNormGradSums,
    BatchNormInputGrad,
    BatchNormOperator,
    BatchNormSums,
)
from simcluster.work import Work


class BatchNorm(BatchNormOperator):
    """``(x - mean) / std * w + b``; outputs y, and mean and reciprocal std by group and channel (fp32)."""

    kind: ClassVar[str] = "batch_norm"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Y like x, and two statistics."""
        statistic = self._statistic(inputs[0])
        return (inputs[0], statistic, statistic)

    def dims(self) -> Dims:
        """Samples may be split as far as groups stay whole."""
        statistics = self.statistics
        return Dims(
            (PICTURE, CHANNELS, CHANNELS),
            (PICTURE, statistics.labels, statistics.labels),
            unsplittable=statistics.whole,
            windows=statistics.windows(4, 5),
        )

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """Two passes over x, the first for the statistics."""
        return super().work((*inputs, inputs[0]), outputs, accumulate=accumulate)

    def input_gradients(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grad: Gradient
    ) -> tuple[Gradient | None, ...]:
        """Reads x and the statistics."""
        operands = [inputs[0], outputs[1], outputs[2], inputs[1], grad]
        return tape.emit("grad", BatchNormGrad(self.statistics), operands)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The normalised pictures."""
        x, weight, bias = inputs
        statistics = self.statistics
        groups = statistics.grouped(x)
        mean = groups.mean(axis=(1, 3, 4))
        centred = groups - statistics.spread(mean)
        reciprocal = 1 / np.sqrt((centred * centred).mean(axis=(1, 3, 4)) + x.dtype.type(statistics.eps))
        y = centred * statistics.spread(reciprocal) * statistics.spread(weight) + statistics.spread(bias)
        return (y.reshape(x.shape), statistics.back(mean), statistics.back(reciprocal))

    def rewrite(self, request: Rewrite) -> Operator | None:
        """With smaller groups, unless statistics are synchronised."""
        if not isinstance(request, GroupBatch) or not self.statistics.group:
            return None
        return BatchNorm(self.statistics.parted(request.ways))

    def decompose(self, split: frozenset[str]) -> Decomposition | None:
        """Two sums over what a rank has of a group, and the pass that reads them once they are complete."""
        if not self.statistics.inner(split):
            return None
        return Decomposition(
            (
                ("sums", BatchNormSums(self.statistics), ("in0",), ("sums",)),
                (
                    "normalise",
                    BatchNormalise(self.statistics),
                    ("in0", "sums", "in1", "in2"),
                    ("out0", "out1", "out2"),
                ),
            )
        )


class BatchNormGrad(BatchNormOperator):
    """``dx, dw, db`` from x, mean, reciprocal std, w and dy."""

    kind: ClassVar[str] = "batch_norm_grad"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Like x, and twice like w."""
        return (inputs[0], inputs[3], inputs[3])

    def dims(self) -> Dims:
        """Linear in dy; dw and db sum over all groups."""
        statistics = self.statistics
        return Dims(
            (PICTURE, statistics.labels, statistics.labels, CHANNELS, PICTURE),
            (PICTURE, CHANNELS, CHANNELS),
            unsplittable=statistics.whole,
            linear=(frozenset({4}),),
            windows=statistics.windows(1, 2),
        )

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """Two passes over x and dy, the first for two sums."""
        return super().work((*inputs, inputs[0], inputs[4]), outputs, accumulate=accumulate)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The two sums, and dx from them."""
        x, mean, reciprocal, weight, dy = inputs
        sums, dw, db = BatchNormGradSums(self.statistics).evaluate((x, mean, reciprocal, dy), region)
        made = BatchNormInputGrad(self.statistics).evaluate((x, mean, reciprocal, weight, dy, sums), region)
        return (*made, dw, db)

    def decompose(self, split: frozenset[str]) -> Decomposition | None:
        """Two sums over what a rank has of a group, and the pass that reads them once they are complete."""
        if not self.statistics.inner(split):
            return None
        sums, grad = BatchNormGradSums(self.statistics), BatchNormInputGrad(self.statistics)
        return Decomposition(
            (
                ("sums", sums, ("in0", "in1", "in2", "in4"), ("sums", "out1", "out2")),
                ("input", grad, ("in0", "in1", "in2", "in3", "in4", "sums"), ("out0",)),
            )
        )
