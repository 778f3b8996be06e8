"""The passes that batch norm and its gradient are made of where a group of samples is split.

First sums over what a rank has of a group; then, once they are complete, every pixel alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from simcluster.layout import Dims
from simcluster.model.attributes import CHANNELS, PICTURE, StatisticsGroups
from simcluster.model.graph import Array, MemoryBound, MemoryPass, Region, TensorType
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
        each = self.statistics
        return Dims(
            (PICTURE,), (each.sums,), unsplittable=_PAIR, windows=each.windows(1), neutral=((0, 0.0),)
        )

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The sums, by the elements of the whole group."""
        each = self.statistics
        groups = each.grouped(inputs[0])
        sums = np.stack([groups.sum(axis=(1, 3, 4)), (groups * groups).sum(axis=(1, 3, 4))], axis=1)
        return (each.back(sums / inputs[0].dtype.type(each.count), 2),)


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
        each = self.statistics
        return Dims(
            (PICTURE, each.sums, CHANNELS, CHANNELS),
            (PICTURE, each.labels, each.labels),
            unsplittable=_PAIR,
            terms=((frozenset(range(4)),), (frozenset({1}),), (frozenset({1}),)),
            windows=each.windows(1, 5, 6),
        )

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The normalised pictures, and the statistics of the sums."""
        x, sums, weight, bias = inputs
        each = self.statistics
        mean, square = np.moveaxis(sums, -2, 0)
        reciprocal = 1 / np.sqrt(np.maximum(square - mean * mean, 0) + x.dtype.type(each.eps))
        made = (each.grouped(x) - each.spread(mean)) * each.spread(reciprocal)
        y = made * each.spread(weight) + each.spread(bias)
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
        each = self.statistics
        return Dims(
            (each.sums, each.labels, each.labels),
            (each.sums,),
            unsplittable=_PAIR,
            windows=each.windows(0, 1, 2, 3),
        )

    def grouped(self, ways: int) -> RunningStatistics | None:
        """Of smaller groups, unless statistics are synchronised."""
        each = self.statistics
        return replace(self, statistics=each.parted(ways)) if each.group else None

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The new running statistics."""
        running, mean, reciprocal = inputs
        each = self.statistics
        variance = (1 / (reciprocal * reciprocal) - each.eps) * (each.count / max(1, each.count - 1))
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
        each = self.statistics
        return Dims(
            (PICTURE, each.labels, each.labels, PICTURE),
            (each.sums, CHANNELS, CHANNELS),
            unsplittable=_PAIR,
            linear=(frozenset({3}),),
            windows=each.windows(1, 2, 4),
        )

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The sums by group, and over groups."""
        x, mean, reciprocal, dy = inputs
        each = self.statistics
        normal = (each.grouped(x) - each.spread(mean)) * each.spread(reciprocal)
        grads = each.grouped(dy)
        sums = np.stack([grads.sum(axis=(1, 3, 4)), (grads * normal).sum(axis=(1, 3, 4))], axis=1)
        db, dw = sums.sum(axis=0)
        return (each.back(sums, 2), dw, db)


class BatchNormInputGrad(BatchNormOperator):
    """``dx = r w (dy - mean(dy) - xhat mean(dy xhat))`` from x, mean, r, w, dy and the two sums."""

    kind: ClassVar[str] = "batch_norm_input_grad"
    launch: ClassVar[MemoryPass] = MemoryPass(Kernel.ELEMENTWISE, flops_per_element=5)

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Like x."""
        return (inputs[0],)

    def dims(self) -> Dims:
        """Jointly linear in dy and its sums, and in w."""
        each = self.statistics
        return Dims(
            (PICTURE, each.labels, each.labels, CHANNELS, PICTURE, each.sums),
            (PICTURE,),
            unsplittable=_PAIR,
            linear=(frozenset({4, 5}), frozenset({3})),
            windows=each.windows(1, 2, 5),
        )

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The gradient of every pixel."""
        x, mean, reciprocal, weight, dy, sums = inputs
        each = self.statistics
        total, product = np.moveaxis(sums / x.dtype.type(each.count), -2, 0)
        normal = (each.grouped(x) - each.spread(mean)) * each.spread(reciprocal)
        grad = each.grouped(dy) - each.spread(total) - normal * each.spread(product)
        return ((grad * each.spread(reciprocal) * each.spread(weight)).reshape(x.shape),)
