"""Windows that slide over pictures: the arithmetic that convolutions and pools share.

A window of K pixels starts every S pixels, the first one P pixels before the picture; R pixels of picture and
padding are left behind the last. Equal parts of the picture have equal windows if there is one window for
every S pixels, which is K - 2 P + R = S. Then those of a part reach P pixels before it and K - S - P behind.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Window
from simcluster.model.graph import Array, Region

PICTURE = ("batch", "channels", "height", "width")
EDGES = ("height", "width")

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows of ``kernel`` = (height, width) in steps of ``stride`` over a picture with ``padding`` around.

    ``remainder`` are the pixels behind the last window.
    """

    kernel: Pair
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    remainder: Pair = (0, 0)

    @classmethod
    def over(cls, size: Pair, kernel: int, stride: int = 1, padding: int = 0) -> Windows:
        """Square windows over a picture of this height and width; ValueError if none fits."""
        if min(size) + 2 * padding < kernel:
            raise ValueError(
                f"a window of {kernel} is larger than {min(size)} pixels and 2 x {padding} around"
            )
        left = [(edge + 2 * padding - kernel) % stride for edge in size]
        return cls((kernel, kernel), (stride, stride), (padding, padding), (left[0], left[1]))

    def aligned(self, edge: int) -> bool:
        """Whether equal parts along an edge (0: height) have equal windows."""
        kernel, stride, padding = self._along(edge)
        return kernel - 2 * padding + self.remainder[edge] == stride

    @property
    def results(self) -> tuple[str, str]:
        """What the dims of a result are called: as the picture's where both can be split alike."""
        height, width = (name if self.aligned(edge) else f"out_{name}" for edge, name in enumerate(EDGES))
        return height, width

    @property
    def whole(self) -> tuple[tuple[str, str], ...]:
        """The dims that cannot be split, with the arithmetic."""
        reasons = []
        for edge, name in enumerate(EDGES):
            if not self.aligned(edge):
                kernel, stride, padding = self._along(edge)
                needed = kernel - 2 * padding + self.remainder[edge]
                reason = (
                    f"parts would have unequal windows: windows of {kernel}, less padding 2 x {padding}, "
                    f"and {self.remainder[edge]} left behind the last are {needed}, not the step {stride}"
                )
                reasons += [(name, reason), (f"out_{name}", reason)]
        return tuple(reasons)

    def of_picture(self, operand: int, fill: float = 0.0) -> Iterator[Window]:
        """How a picture lies under the windows, as an operand whose edges are split."""
        for edge, name in enumerate(EDGES):
            before, after = self.reach(edge)
            if self.aligned(edge) and (before or after):
                yield Window(operand, name, 1, before, after, fill)

    def of_result(self, operand: int) -> Iterator[Window]:
        """How a result, one element per window, lies along the picture."""
        for edge, name in enumerate(EDGES):
            if self.aligned(edge) and self.stride[edge] > 1:
                yield Window(operand, name, self.stride[edge])

    def reach(self, edge: int) -> Pair:
        """Pixels that the windows of a part reach before it and behind it."""
        kernel, stride, padding = self._along(edge)
        return padding, max(0, kernel - stride - padding)

    def count(self, shape: tuple[int, ...]) -> Pair:
        """Windows along height and width over a picture of this shape."""
        height, width = (self._count(edge, size) for edge, size in enumerate(shape[-2:]))
        return height, width

    def size(self, counts: tuple[int, ...]) -> Pair:
        """Height and width of the picture that has so many windows."""
        height, width = (
            (count - 1) * self.stride[edge]
            + self.kernel[edge]
            - 2 * self.padding[edge]
            + self.remainder[edge]
            for edge, count in enumerate(counts[-2:])
        )
        return height, width

    def gathered(self, x: Array, region: Region, fill: float = 0.0) -> Array:
        """Every window of a picture, or of a part with its halos, as im2col does: [..., height, width,
        kernel, kernel].
        """
        margins = [(0, 0)] * (x.ndim - 2) + [self._margin(region, edge) for edge in (0, 1)]
        x = np.pad(x, margins, constant_values=fill)
        views = np.lib.stride_tricks.sliding_window_view(x, self.kernel, axis=(-2, -1))
        views = views[..., :: self.stride[0], :: self.stride[1], :, :]
        counts = [self._windows(x.shape[edge - 2], edge, region) for edge in (0, 1)]
        return np.asarray(views[..., : counts[0], : counts[1], :, :])

    def scattered(self, terms: Array, region: Region) -> Array:
        """Adds up windows [..., height, width, kernel, kernel] where they overlap in a picture, or in a part
        with its halos, as col2im does.
        """
        spans = [
            (count - 1) * self.stride[edge] + self.kernel[edge]
            for edge, count in enumerate(terms.shape[-4:-2])
        ]
        sizes = self._size_with_halos(terms.shape[-4:-2], region)
        margins = [self._margin(region, edge)[0] for edge in (0, 1)]
        shape = [max(span, size + margin) for span, size, margin in zip(spans, sizes, margins, strict=True)]
        whole = np.zeros((*terms.shape[:-4], *shape), dtype=terms.dtype)
        for row in range(self.kernel[0]):
            for column in range(self.kernel[1]):
                place = (
                    slice(row, row + spans[0] - self.kernel[0] + 1, self.stride[0]),
                    slice(column, column + spans[1] - self.kernel[1] + 1, self.stride[1]),
                )
                whole[..., place[0], place[1]] += terms[..., row, column]
        rows, columns = (slice(margin, margin + size) for margin, size in zip(margins, sizes, strict=True))
        return np.array(whole[..., rows, columns])

    def _size_with_halos(self, counts: tuple[int, ...], region: Region) -> list[int]:
        sizes = []
        for edge, name in enumerate(EDGES):
            if name in region.sizes:
                sizes.append(counts[edge] * self.stride[edge] + sum(self.reach(edge)))
            else:
                sizes.append(self.size(counts)[edge])
        return sizes

    def _margin(self, region: Region, edge: int) -> Pair:
        """Padding that the array itself does not have: a part has halos instead."""
        return (0, 0) if EDGES[edge] in region.sizes else (self.padding[edge], self.padding[edge])

    def _windows(self, padded: int, edge: int, region: Region) -> int:
        """Windows that start in a part, not in its halo; all of them where the picture is whole."""
        if EDGES[edge] in region.sizes:
            return (padded - sum(self.reach(edge))) // self.stride[edge]
        return (padded - self.kernel[edge]) // self.stride[edge] + 1

    def _count(self, edge: int, size: int) -> int:
        return (size + 2 * self.padding[edge] - self.kernel[edge]) // self.stride[edge] + 1

    def _along(self, edge: int) -> tuple[int, int, int]:
        return self.kernel[edge], self.stride[edge], self.padding[edge]
