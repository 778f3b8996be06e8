"""The passes that batch norm and its gradient are made of where a group of samples is split.

First sums over what a rank has of a group; then, once they are complete, every pixel alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Dims
from simcluster.model.attributes import CHANNELS, PICTURE, StatisticsGroups
from simcluster.model.graph import (
    Array,
    GroupBatch,
    MemoryBound,
    MemoryPass,
    Operator,
    Region,
    Rewrite,
    TensorType,
)
from simcluster.work import DType, Kernel

_PAIR = (("sums", "the two sums are read together"),)


@dataclass(frozen=True, slots=True)
class BatchNormOperator(MemoryBound):
    """What batch norm, its gradient and their passes share."""

    statistics: StatisticsGroups

    family: ClassVar[str] = "batch_norm"
    launch: ClassVar[MemoryPass] = MemoryPass(Kernel.REDUCTION, flops_per_element=5)

    def _statistic(self, x: TensorType) -> TensorType:
        return TensorType(self.statistics.shape(x.shape), DType.FP32)

    def _two_sums(self, x: TensorType) -> TensorType:
        return TensorType(self.statistics.shape(x.shape, 2), DType.FP32)


class BatchNormSums(BatchNormOperator):
    """The mean of x and of its square over the whole group: the part that the samples and pixels here add."""

    kind: ClassVar[str] = "batch_norm_sums"
    family: ClassVar[str] = "statistics"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Two numbers per statistic."""
        return (self._two_sums(inputs[0]),)

    def dims(self) -> Dims:
        """Partial over samples of a group and pixels."""
        statistics = self.statistics
        return Dims(
            (PICTURE,),
            (statistics.sums,),
            unsplittable=_PAIR,
            windows=statistics.windows(1),
            neutral=((0, 0.0),),
        )

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The sums, by the elements of the whole group."""
        statistics = self.statistics
        groups = statistics.grouped(inputs[0])
        sums = np.stack([groups.sum(axis=(1, 3, 4)), (groups * groups).sum(axis=(1, 3, 4))], axis=1)
        return (statistics.back(sums / inputs[0].dtype.type(statistics.count), 2),)


class BatchNormalise(BatchNormOperator):
    """Batch norm from x and the means of x and of its square: y, mean and reciprocal std."""

    kind: ClassVar[str] = "batch_normalise"
    launch: ClassVar[MemoryPass] = MemoryPass(Kernel.ELEMENTWISE, flops_per_element=5)

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """As batch norm's."""
        statistic = self._statistic(inputs[0])
        return (inputs[0], statistic, statistic)

    def dims(self) -> Dims:
        """Every element stands alone, given the sums; the statistics know nothing of x."""
        statistics = self.statistics
        return Dims(
            (PICTURE, statistics.sums, CHANNELS, CHANNELS),
            (PICTURE, statistics.labels, statistics.labels),
            unsplittable=_PAIR,
            terms=((frozenset(range(4)),), (frozenset({1}),), (frozenset({1}),)),
            windows=statistics.windows(1, 5, 6),
        )

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The normalised pictures, and the statistics of the sums."""
        x, sums, weight, bias = inputs
        statistics = self.statistics
        mean, square = np.moveaxis(sums, -2, 0)
        reciprocal = 1 / np.sqrt(np.maximum(square - mean * mean, 0) + x.dtype.type(statistics.eps))
        made = (statistics.grouped(x) - statistics.spread(mean)) * statistics.spread(reciprocal)
        y = made * statistics.spread(weight) + statistics.spread(bias)
        return (y.reshape(x.shape), mean.copy(), reciprocal)


@dataclass(frozen=True, slots=True)
class RunningStatistics(BatchNormOperator):
    """Running mean and variance, moved a share ``momentum`` to the batch's; of them, mean and reciprocal std.

    They are a state that every micro-batch updates, from zeros on; training never reads them. The variance
    is the unbiased one.
    """

    momentum: float = 0.1

    kind: ClassVar[str] = "running_statistics"
    launch: ClassVar[MemoryPass] = MemoryPass(Kernel.ELEMENTWISE, flops_per_element=5)

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Two numbers per statistic."""
        *groups, channels = inputs[1].shape
        return (TensorType((*groups, 2, channels), DType.FP32),)

    def dims(self) -> Dims:
        """Every statistic stands alone."""
        statistics = self.statistics
        return Dims(
            (statistics.sums, statistics.labels, statistics.labels),
            (statistics.sums,),
            unsplittable=_PAIR,
            windows=statistics.windows(0, 1, 2, 3),
        )

    def rewrite(self, request: Rewrite) -> Operator | None:
        """Of smaller groups, unless statistics are synchronised."""
        if not isinstance(request, GroupBatch) or not self.statistics.group:
            return None
        return replace(self, statistics=self.statistics.parted(request.ways))

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The new running statistics."""
        running, mean, reciprocal = inputs
        statistics = self.statistics
        variance = (1 / (reciprocal * reciprocal) - statistics.eps) * (
            statistics.count / max(1, statistics.count - 1)
        )
        batch = np.stack([mean, variance], axis=-2)
        return (np.asarray((1 - self.momentum) * running + self.momentum * batch, dtype=running.dtype),)


class BatchNormGradSums(BatchNormOperator):
    """By group the sums of dy and of dy times the normal x, and dw and db; of x, mean, reciprocal and dy."""

    kind: ClassVar[str] = "batch_norm_grad_sums"
    family: ClassVar[str] = "statistics"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Two numbers per statistic; dw and db in the type of x."""
        weight = TensorType(inputs[0].shape[1:2], inputs[0].dtype)
        return (self._two_sums(inputs[0]), weight, weight)

    def dims(self) -> Dims:
        """Linear in dy; partial over pixels, and over samples as far as they are one group's."""
        statistics = self.statistics
        return Dims(
            (PICTURE, statistics.labels, statistics.labels, PICTURE),
            (statistics.sums, CHANNELS, CHANNELS),
            unsplittable=_PAIR,
            linear=(frozenset({3}),),
            windows=statistics.windows(1, 2, 4),
        )

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The sums by group, and over groups."""
        x, mean, reciprocal, dy = inputs
        statistics = self.statistics
        normal = (statistics.grouped(x) - statistics.spread(mean)) * statistics.spread(reciprocal)
        grads = statistics.grouped(dy)
        sums = np.stack([grads.sum(axis=(1, 3, 4)), (grads * normal).sum(axis=(1, 3, 4))], axis=1)
        db, dw = sums.sum(axis=0)
        return (statistics.back(sums, 2), dw, db)


class BatchNormInputGrad(BatchNormOperator):
    """``dx = r w (dy - mean(dy) - xhat mean(dy xhat))`` from x, mean, r, w, dy and the two sums."""

    kind: ClassVar[str] = "batch_norm_input_grad"
    launch: ClassVar[MemoryPass] = MemoryPass(Kernel.ELEMENTWISE, flops_per_element=5)

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Like x."""
        return (inputs[0],)

    def dims(self) -> Dims:
        """Jointly linear in dy and its sums, and in w."""
        statistics = self.statistics
        return Dims(
            (PICTURE, statistics.labels, statistics.labels, CHANNELS, PICTURE, statistics.sums),
            (PICTURE,),
            unsplittable=_PAIR,
            linear=(frozenset({4, 5}), frozenset({3})),
            windows=statistics.windows(1, 2, 5),
        )

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The gradient of every pixel."""
        x, mean, reciprocal, weight, dy, sums = inputs
        statistics = self.statistics
        total, product = np.moveaxis(sums / x.dtype.type(statistics.count), -2, 0)
        normal = (statistics.grouped(x) - statistics.spread(mean)) * statistics.spread(reciprocal)
        grad = statistics.grouped(dy) - statistics.spread(total) - normal * statistics.spread(product)
        return ((grad * statistics.spread(reciprocal) * statistics.spread(weight)).reshape(x.shape),)
