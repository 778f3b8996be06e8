"""Neutral elements in the padding of dims that do not divide over the ranks which split them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Dims
from simcluster.model.graph import Array, Labels, Region
from simcluster.model.operators.pointwise import Pointwise


@dataclass(frozen=True, slots=True)
class Mask(Pointwise):
    """x with ``fill`` where it is padding along one of ``padded``, which are some of its dims' ``labels``.

    It selects and does not multiply, so that NaN and infinity in the padding do not pass. It has no gradient:
    masks are added when graphs are sharded, after differentiation.
    """

    padded: Labels
    fill: float = 0.0

    kind: ClassVar[str] = "mask"
    anywhere: ClassVar[bool] = False

    def dims(self) -> Dims:
        """Linear if it fills in zeros."""
        return Dims((self.labels,), (self.labels,), linear=() if self.fill else (frozenset({0}),))

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The elements that are of the tensor, and the fill."""
        (x,) = inputs
        kept = tuple(
            slice(region.unpadded(name, size) if name in self.padded else size)
            for name, size in zip(self.labels, x.shape, strict=True)
        )
        masked = np.full_like(x, self.fill)
        masked[kept] = x[kept]
        return (masked,)
