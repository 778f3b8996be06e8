"""Batch norm over pictures [batch, channels, height, width]: statistics of a channel over samples and pixels.

Frameworks normalise by the samples that a device has, unless statistics are synchronised. So the mathematics
has groups: every ``group`` samples share statistics. A batch that is split into whole groups needs no
communication; where a group is split, sums travel between two passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from simcluster.layout import Dims, Window
from simcluster.model.operator import (
    Array,
    Decomposition,
    Operator,
    Region,
    Tape,
    TensorType,
    memory_bound,
)
from simcluster.model.windows import PICTURE
from simcluster.work import DType, Kernel, Work

_CHANNELS = ("channels",)


@dataclass(frozen=True, slots=True)
class Statistics:
    """Who shares a mean and a variance.

    Every ``group`` samples of the batch, or all of them where it is 0 (synchronised); ``count`` are the
    pixels of a channel in all samples of a group.
    """

    count: int
    group: int = 0
    eps: float = 1e-5

    def parted(self, ways: int) -> Statistics:
        """Those of groups that are so many times smaller; ValueError if samples do not divide."""
        if self.group % ways:
            raise ValueError(f"{self.group} samples in {ways} groups: {self.group} / {ways} = {self.group / ways:g}")
        return replace(self, count=self.count // ways, group=self.group // ways)

    @property
    def labels(self) -> tuple[str, ...]:
        """The dims of a statistic: per group, as part of the batch, and channel."""
        return ("batch", "channels") if self.group else _CHANNELS

    @property
    def sums(self) -> tuple[str, ...]:
        """The dims of two sums."""
        return (*self.labels[:-1], "sums", "channels")

    @property
    def whole(self) -> tuple[tuple[str, str], ...]:
        """The dims that a pass over a group cannot split."""
        names = ("height", "width") if self.group else ("batch", "height", "width")
        return tuple((name, "the statistics of a group are taken over it inside the operator") for name in names)

    def windows(self, *operands: int) -> tuple[Window, ...]:
        """How operands with one element per group lie along the batch."""
        return tuple(Window(operand, "batch", self.group) for operand in operands if self.group > 1)

    def shape(self, x: tuple[int, ...], *between: int) -> tuple[int, ...]:
        """Of a statistic of a picture of this shape; ``between`` groups and channels."""
        return (*((x[0] // self.group,) if self.group else ()), *between, x[1])

    def grouped(self, x: Array) -> Array:
        """[groups, samples, channels, height, width]."""
        return x.reshape(-1, self.group or x.shape[0], *x.shape[1:])

    def spread(self, statistic: Array) -> Array:
        """A statistic beside ``grouped``."""
        return statistic.reshape(-1, 1, statistic.shape[-1], 1, 1)

    def back(self, total: Array, *between: int) -> Array:
        """Sums [groups, ..., channels] as a statistic."""
        shape = (total.shape[0], *between, total.shape[-1])
        return total.reshape(shape if self.group else shape[1:])

    def inner(self, split: frozenset[str]) -> bool:
        """Whether these are dims of a group, so that sums over them have to travel."""
        return bool(split) and split <= {name for name, _ in self.whole}


class _BatchNorm(Operator):
    """What batch norm, its gradient and their passes share."""

    family: ClassVar[str] = "norm"
    statistics: Statistics

    def _pass(
        self,
        inputs: Sequence[TensorType],
        outputs: Sequence[TensorType],
        accumulate: bool,
        again: Sequence[TensorType] = (),
    ) -> tuple[Work, ...]:
        """One kernel that reads its inputs, and some of them ``again``."""
        return (
            memory_bound(
                Kernel.REDUCTION, (*inputs, *again), outputs, flops_per_element=5, accumulate=accumulate
            ),
        )

    def _statistic(self, x: TensorType) -> TensorType:
        return TensorType(self.statistics.shape(x.shape), DType.FP32)

    def _two_sums(self, x: TensorType) -> TensorType:
        return TensorType(self.statistics.shape(x.shape, 2), DType.FP32)


@dataclass(frozen=True, slots=True)
class BatchNorm(_BatchNorm):
    """``(x - mean) / std * w + b``; outputs y, and mean and reciprocal std of each group and channel (fp32)."""

    statistics: Statistics

    kind: ClassVar[str] = "batch_norm"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Y like x, and two statistics."""
        statistic = self._statistic(inputs[0])
        return (inputs[0], statistic, statistic)

    def dims(self) -> Dims:
        """Samples may be split as far as groups stay whole."""
        each = self.statistics
        return Dims(
            (PICTURE, _CHANNELS, _CHANNELS),
            (PICTURE, each.labels, each.labels),
            whole=each.whole,
            windows=each.windows(4, 5),
        )

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """Two passes over x, the first for the statistics."""
        return self._pass(inputs, outputs, accumulate, inputs[:1])

    def gradient(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grads: Sequence[str | None]
    ) -> tuple[str | None, ...]:
        """Reads x and the statistics."""
        if grads[0] is None:
            return (None, None, None)
        operands = [inputs[0], outputs[1], outputs[2], inputs[1], grads[0]]
        return tape.emit("grad", BatchNormGrad(self.statistics), operands)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The normalised pictures."""
        x, weight, bias = inputs
        each = self.statistics
        groups = each.grouped(x)
        mean = groups.mean(axis=(1, 3, 4))
        centred = groups - each.spread(mean)
        reciprocal = 1 / np.sqrt((centred * centred).mean(axis=(1, 3, 4)) + x.dtype.type(each.eps))
        y = centred * each.spread(reciprocal) * each.spread(weight) + each.spread(bias)
        return (y.reshape(x.shape), each.back(mean), each.back(reciprocal))

    def grouped(self, ways: int) -> BatchNorm | None:
        """With smaller groups, unless statistics are synchronised."""
        return BatchNorm(self.statistics.parted(ways)) if self.statistics.group else None

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


@dataclass(frozen=True, slots=True)
class BatchNormSums(_BatchNorm):
    """The mean of x and of its square over the whole group: the part that the samples and pixels here add."""

    statistics: Statistics

    kind: ClassVar[str] = "batch_norm_sums"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Two numbers per statistic."""
        return (self._two_sums(inputs[0]),)

    def dims(self) -> Dims:
        """Partial over samples of a group and pixels."""
        each = self.statistics
        return Dims((PICTURE,), (each.sums,), whole=_PAIR, windows=each.windows(1))

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """One pass."""
        return self._pass(inputs, outputs, accumulate)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The sums, by the elements of the whole group."""
        each = self.statistics
        groups = each.grouped(inputs[0])
        sums = np.stack([groups.sum(axis=(1, 3, 4)), (groups * groups).sum(axis=(1, 3, 4))], axis=1)
        return (each.back(sums / inputs[0].dtype.type(each.count), 2),)


@dataclass(frozen=True, slots=True)
class BatchNormalise(_BatchNorm):
    """Batch norm from x and the means of x and of its square: y, mean and reciprocal std."""

    statistics: Statistics

    kind: ClassVar[str] = "batch_normalise"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """As batch norm's."""
        statistic = self._statistic(inputs[0])
        return (inputs[0], statistic, statistic)

    def dims(self) -> Dims:
        """Every element stands alone, given the sums; the statistics know nothing of x."""
        each = self.statistics
        return Dims(
            (PICTURE, each.sums, _CHANNELS, _CHANNELS),
            (PICTURE, each.labels, each.labels),
            whole=_PAIR,
            terms=((frozenset(range(4)),), (frozenset({1}),), (frozenset({1}),)),
            windows=each.windows(1, 5, 6),
        )

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """One pass."""
        return self._pass(inputs, outputs, accumulate)

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
class BatchNormGrad(_BatchNorm):
    """``dx, dw, db`` from x, mean, reciprocal std, w and dy."""

    statistics: Statistics

    kind: ClassVar[str] = "batch_norm_grad"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Like x, and twice like w."""
        return (inputs[0], inputs[3], inputs[3])

    def dims(self) -> Dims:
        """Linear in dy; dw and db sum over all groups."""
        each = self.statistics
        return Dims(
            (PICTURE, each.labels, each.labels, _CHANNELS, PICTURE),
            (PICTURE, _CHANNELS, _CHANNELS),
            whole=each.whole,
            linear=(frozenset({4}),),
            windows=each.windows(1, 2),
        )

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """Two passes over x and dy, the first for two sums."""
        return self._pass(inputs, outputs, accumulate, (inputs[0], inputs[4]))

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


@dataclass(frozen=True, slots=True)
class BatchNormGradSums(_BatchNorm):
    """Of x, mean, reciprocal std and dy: the sums of dy and of dy times the normal x by group, and dw and db."""

    statistics: Statistics

    kind: ClassVar[str] = "batch_norm_grad_sums"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Two numbers per statistic; dw and db in the type of x."""
        weight = TensorType(inputs[0].shape[1:2], inputs[0].dtype)
        return (self._two_sums(inputs[0]), weight, weight)

    def dims(self) -> Dims:
        """Linear in dy; partial over pixels, and over samples as far as they are one group's."""
        each = self.statistics
        return Dims(
            (PICTURE, each.labels, each.labels, PICTURE),
            (each.sums, _CHANNELS, _CHANNELS),
            whole=_PAIR,
            linear=(frozenset({3}),),
            windows=each.windows(1, 2, 4),
        )

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """One pass."""
        return self._pass(inputs, outputs, accumulate)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The sums by group, and over groups."""
        x, mean, reciprocal, dy = inputs
        each = self.statistics
        normal = (each.grouped(x) - each.spread(mean)) * each.spread(reciprocal)
        grads = each.grouped(dy)
        sums = np.stack([grads.sum(axis=(1, 3, 4)), (grads * normal).sum(axis=(1, 3, 4))], axis=1)
        db, dw = sums.sum(axis=0)
        return (each.back(sums, 2), dw, db)


@dataclass(frozen=True, slots=True)
class BatchNormInputGrad(_BatchNorm):
    """``dx = r w (dy - mean(dy) - xhat mean(dy xhat))`` from x, mean, r, w, dy and the two sums."""

    statistics: Statistics

    kind: ClassVar[str] = "batch_norm_input_grad"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Like x."""
        return (inputs[0],)

    def dims(self) -> Dims:
        """Jointly linear in dy and its sums, and in w."""
        each = self.statistics
        return Dims(
            (PICTURE, each.labels, each.labels, _CHANNELS, PICTURE, each.sums),
            (PICTURE,),
            whole=_PAIR,
            linear=(frozenset({4, 5}), frozenset({3})),
            windows=each.windows(1, 2, 5),
        )

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """One pass."""
        return self._pass(inputs, outputs, accumulate)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The gradient of every pixel."""
        x, mean, reciprocal, weight, dy, sums = inputs
        each = self.statistics
        total, product = np.moveaxis(sums / x.dtype.type(each.count), -2, 0)
        normal = (each.grouped(x) - each.spread(mean)) * each.spread(reciprocal)
        grad = each.grouped(dy) - each.spread(total) - normal * each.spread(product)
        return ((grad * each.spread(reciprocal) * each.spread(weight)).reshape(x.shape),)


_PAIR = (("sums", "the two sums are read together"),)
