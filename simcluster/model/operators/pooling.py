"""Pools over pictures [batch, channels, height, width]: the largest or the mean of a window, or of all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Dims
from simcluster.model.attributes import PICTURE, Windows
from simcluster.model.graph import (
    Array,
    Gradient,
    MemoryBound,
    MemoryPass,
    Operator,
    Region,
    Tape,
    TensorType,
)
from simcluster.work import Kernel


@dataclass(frozen=True, slots=True)
class _Pool(MemoryBound):
    """What pools over windows and their gradients share: one pass over memory."""

    windows: Windows

    family: ClassVar[str] = "pool"
    launch: ClassVar[MemoryPass] = MemoryPass(Kernel.REDUCTION)

    @property
    def _result(self) -> tuple[str, ...]:
        return ("batch", "channels", *self.windows.results)

    def _pooled(self, x: TensorType) -> TensorType:
        return TensorType((*x.shape[:2], *self.windows.count(x.shape)), x.dtype)

    def _picture(self, y: TensorType) -> TensorType:
        return TensorType((*y.shape[:2], *self.windows.size(y.shape)), y.dtype)


class MaxPool2d(_Pool):
    """The largest pixel of every window; padding is never the largest."""

    kind: ClassVar[str] = "max_pool2d"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """One element per window."""
        return (self._pooled(inputs[0]),)

    def dims(self) -> Dims:
        """Beyond the ends of the picture stands what is less than any pixel."""
        windows = (*self.windows.of_picture(0, -math.inf), *self.windows.of_result(1))
        return Dims((PICTURE,), (self._result,), unsplittable=self.windows.whole, windows=windows)

    def input_gradients(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grad: Gradient
    ) -> tuple[Gradient | None, ...]:
        """Reads the picture and the result, to find each window's largest pixel again."""
        return tape.emit("grad", MaxPool2dGrad(self.windows), [inputs[0], outputs[0], grad])

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The maxima."""
        return (self.windows.gathered(inputs[0], region, -math.inf).max(axis=(-2, -1)),)


class MaxPool2dGrad(_Pool):
    """``dx`` from x, y and dy: every window's gradient goes to the first of its largest pixels."""

    kind: ClassVar[str] = "max_pool2d_grad"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Like the picture."""
        return (self._picture(inputs[1]),)

    def dims(self) -> Dims:
        """Linear in dy."""
        windows = (
            *self.windows.of_picture(0, -math.inf),
            *self.windows.of_result(1),
            *self.windows.of_result(2),
            *self.windows.of_picture(3),
        )
        return Dims(
            (PICTURE, self._result, self._result),
            (PICTURE,),
            unsplittable=self.windows.whole,
            linear=(frozenset({2}),),
            windows=windows,
        )

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """Zeros but at the maxima."""
        x, y, dy = inputs
        windows = self.windows.gathered(x, region, -math.inf)
        flat = windows.reshape(*windows.shape[:-2], -1)
        first = np.argmax(flat == y[..., None], axis=-1)
        hit = np.arange(flat.shape[-1]) == first[..., None]
        terms = np.where(hit, dy[..., None], dy.dtype.type(0)).reshape(windows.shape)
        return (self.windows.scattered(terms, region),)


class AveragePool2d(_Pool):
    """The mean of every window, zeros around the picture counted in."""

    kind: ClassVar[str] = "average_pool2d"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """One element per window."""
        return (self._pooled(inputs[0]),)

    def dims(self) -> Dims:
        """Linear."""
        return Dims(
            (PICTURE,),
            (self._result,),
            unsplittable=self.windows.whole,
            linear=(frozenset({0}),),
            windows=(*self.windows.of_picture(0), *self.windows.of_result(1)),
        )

    def adjoint(self) -> Operator:
        """Reads nothing of the forward."""
        return AveragePool2dGrad(self.windows)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The means."""
        return (self.windows.gathered(inputs[0], region).mean(axis=(-2, -1)),)


class AveragePool2dGrad(_Pool):
    """``dx`` from dy: every window's gradient in equal shares to its pixels."""

    kind: ClassVar[str] = "average_pool2d_grad"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Like the picture."""
        return (self._picture(inputs[0]),)

    def dims(self) -> Dims:
        """Linear."""
        return Dims(
            (self._result,),
            (PICTURE,),
            unsplittable=self.windows.whole,
            linear=(frozenset({0}),),
            windows=(*self.windows.of_result(0), *self.windows.of_picture(1)),
        )

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The shares, added up where windows overlap."""
        (dy,) = inputs
        share = dy / dy.dtype.type(math.prod(self.windows.kernel))
        terms = np.broadcast_to(share[..., None, None], (*dy.shape, *self.windows.kernel))
        return (self.windows.scattered(terms, region),)


_POOLED = PICTURE[:2]


@dataclass(frozen=True, slots=True)
class GlobalAveragePool(MemoryBound):
    """The mean of every channel's ``pixels``: [batch, channels]. With an edge split, a partial sum."""

    height: int
    width: int

    kind: ClassVar[str] = "global_average_pool"
    family: ClassVar[str] = "pool"
    launch: ClassVar[MemoryPass] = MemoryPass(Kernel.REDUCTION)

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """[batch, channels]."""
        return (TensorType(inputs[0].shape[:2], inputs[0].dtype),)

    def dims(self) -> Dims:
        """Linear; the edges are summed over, and divided by all pixels."""
        return Dims((PICTURE,), (_POOLED,), linear=(frozenset({0}),))

    def adjoint(self) -> Operator:
        """Reads nothing of the forward."""
        return GlobalAveragePoolGrad(self.height, self.width)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The sums by all pixels of the whole picture."""
        (x,) = inputs
        return (np.asarray(x.sum(axis=(-2, -1)) / x.dtype.type(self.height * self.width)),)


@dataclass(frozen=True, slots=True)
class GlobalAveragePoolGrad(MemoryBound):
    """Every channel's gradient in equal shares to its pixels."""

    height: int
    width: int

    kind: ClassVar[str] = "global_average_pool_grad"
    family: ClassVar[str] = "pool"
    launch: ClassVar[MemoryPass] = MemoryPass(Kernel.ELEMENTWISE)

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Like the picture."""
        return (TensorType((*inputs[0].shape, self.height, self.width), inputs[0].dtype),)

    def dims(self) -> Dims:
        """Linear."""
        return Dims((_POOLED,), (PICTURE,), linear=(frozenset({0}),))

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The shares."""
        (dy,) = inputs
        edges = (region.size("height", self.height), region.size("width", self.width))
        share = dy / dy.dtype.type(self.height * self.width)
        return (np.array(np.broadcast_to(share[..., None, None], (*dy.shape, *edges))),)
