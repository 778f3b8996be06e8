"""Convolutions over pictures [batch, channels, height, width], and their two gradients.

A picture may be split along batch, channels, filters, height and width. Along an edge, the windows of a part
reach into the parts beside it: the layouts ask for a halo, and no operator communicates (DESIGN 4.2).
All three are priced as their implicit matmul (arXiv 1410.0759).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Dims
from simcluster.model.attributes import PICTURE, Windows
from simcluster.model.graph import Array, Gradient, Operator, Region, Tape, TensorType
from simcluster.work import Kernel, Work

_WEIGHT = ("filters", "channels", "kernel_height", "kernel_width")
_KERNEL = tuple((name, "a window is multiplied as a whole") for name in _WEIGHT[2:])


@dataclass(frozen=True, slots=True)
class _Convolution(Operator):
    """What a convolution and its gradients share."""

    windows: Windows

    family: ClassVar[str] = "convolution"

    @property
    def _result(self) -> tuple[str, ...]:
        return ("batch", "filters", *self.windows.results)

    @property
    def _whole(self) -> tuple[tuple[str, str], ...]:
        return (*_KERNEL, *self.windows.whole)

    def _priced(
        self,
        inputs: Sequence[TensorType],
        outputs: Sequence[TensorType],
        accumulate: bool,
        m: int,
        n: int,
        k: int,
    ) -> tuple[Work, ...]:
        written = sum(tensor.num_bytes for tensor in outputs)
        return (
            Work(
                Kernel.CONV,
                inputs[0].dtype,
                flops=2 * m * n * k,
                bytes_read=sum(tensor.num_bytes for tensor in inputs) + (written if accumulate else 0),
                bytes_written=written,
                sizes=(("b", 1), ("m", m), ("n", n), ("k", k)),
            ),
        )


class Conv2d(_Convolution):
    """``y = x * w``, no bias; x [batch, channels, height, width], w [filters, channels, height, width]."""

    kind: ClassVar[str] = "conv2d"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """One element per filter and window."""
        x, w = inputs
        return (TensorType((x.shape[0], w.shape[0], *self.windows.count(x.shape)), x.dtype),)

    def dims(self) -> Dims:
        """Linear in x and in w; channels are summed over."""
        return Dims(
            (PICTURE, _WEIGHT),
            (self._result,),
            unsplittable=self._whole,
            linear=(frozenset({0}), frozenset({1})),
            windows=(*self.windows.of_picture(0), *self.windows.of_result(2)),
        )

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """Windows x filters x what a window multiplies."""
        batch, filters, height, width = outputs[0].shape
        per_window = inputs[1].num_elements // filters
        return self._priced(inputs, outputs, accumulate, batch * height * width, filters, per_window)

    def input_gradients(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grad: Gradient
    ) -> tuple[Gradient | None, ...]:
        """Of the picture, if anybody wants it, and of the weight."""
        x, w = inputs
        gradients: list[str | None] = [None, None]
        if tape.needs_gradient(x):
            (gradients[0],) = tape.emit("dgrad", ConvInputGrad(self.windows), [grad, w])
        if tape.needs_gradient(w):
            (gradients[1],) = tape.emit("wgrad", ConvWeightGrad(self.windows), [x, grad])
        return tuple(gradients)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """Every window times every filter."""
        x, w = inputs
        windows = self.windows.gathered(x, region)
        made = np.tensordot(windows, w, axes=((1, 4, 5), (1, 2, 3)))
        return (np.ascontiguousarray(np.moveaxis(made, -1, 1)),)


class ConvInputGrad(_Convolution):
    """The gradient of the picture from that of the result and the weight: ``dx`` of dy and w."""

    kind: ClassVar[str] = "conv2d_input_grad"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Like the picture."""
        dy, w = inputs
        return (TensorType((dy.shape[0], w.shape[1], *self.windows.size(dy.shape)), dy.dtype),)

    def dims(self) -> Dims:
        """Linear in dy and in w; filters are summed over. What a part owes its neighbours is a halo."""
        return Dims(
            (self._result, _WEIGHT),
            (PICTURE,),
            unsplittable=self._whole,
            linear=(frozenset({0}), frozenset({1})),
            windows=(*self.windows.of_result(0), *self.windows.of_picture(2)),
        )

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """As many multiply-adds as forward."""
        dy, w = inputs
        batch, _, height, width = dy.shape
        per_pixel = w.num_elements // w.shape[1]
        return self._priced(inputs, outputs, accumulate, batch * height * width, w.shape[1], per_pixel)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """Every result's gradient times its filter, added up where its window lies."""
        dy, w = inputs
        terms = np.tensordot(dy, w, axes=((1,), (0,)))
        return (self.windows.scattered(np.moveaxis(terms, 3, 1), region),)


class ConvWeightGrad(_Convolution):
    """The gradient of the weight from the picture and the gradient of the result: ``dw`` of x and dy."""

    kind: ClassVar[str] = "conv2d_weight_grad"

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Like the weight."""
        x, dy = inputs
        return (TensorType((dy.shape[1], x.shape[1], *self.windows.kernel), x.dtype),)

    def dims(self) -> Dims:
        """Linear in x and in dy; the batch and all windows are summed over."""
        return Dims(
            (PICTURE, self._result),
            (_WEIGHT,),
            unsplittable=self._whole,
            linear=(frozenset({0}), frozenset({1})),
            windows=(*self.windows.of_picture(0), *self.windows.of_result(1)),
        )

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """As many multiply-adds as forward."""
        batch, filters, height, width = inputs[1].shape
        per_filter = outputs[0].num_elements // filters
        return self._priced(inputs, outputs, accumulate, per_filter, filters, batch * height * width)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """Every window times the gradient of its result, summed."""
        x, dy = inputs
        windows = self.windows.gathered(x, region)
        return (np.tensordot(dy, windows, axes=((0, 2, 3), (0, 2, 3))),)
