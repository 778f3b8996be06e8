"""Casting to fp8 before a matrix product, and what the cast does to values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Dims
from simcluster.model.graph import Array, Labels, MemoryBound, MemoryPass, Region, TensorType
from simcluster.work import DType, Kernel

E4M3, E5M2 = 4, 3
"""Significant bits of the two fp8 formats, the leading one included (arXiv 2209.05433): E4M3 holds
activations and weights, E5M2 gradients."""


@dataclass(frozen=True, slots=True)
class Fp8Cast(MemoryBound):
    """A tensor rounded to fp8 with ``significant`` bits; inputs x, outputs one or two equal ``copies``.

    The second copy lies transposed in memory, for the products that sum over a dim which is not the last one
    of the first. One scale per tensor, known from earlier steps (delayed scaling), keeps values in
    the format's range; a power of two, it does not touch their significand. So in values a cast
    rounds the significand and leaves the exponent alone, the same under every layout. Sums are exact enough
    for that in double precision only: in single precision two orders of adding would now and then round to
    different neighbours, an eighth apart, so there a cast copies.
    """

    labels: Labels
    significant: int = E4M3
    copies: int = 1

    kind: ClassVar[str] = "fp8_cast"
    family: ClassVar[str] = "quantisation"
    anywhere: ClassVar[bool] = True
    launch: ClassVar[MemoryPass] = MemoryPass(Kernel.ELEMENTWISE, flops_per_element=2, accumulates=False)
    narrow: ClassVar[DType] = DType.FP8
    """The format that it casts to."""

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """The shape of x, in the narrow format."""
        return (TensorType(inputs[0].shape, self.narrow),) * self.copies

    def dims(self) -> Dims:
        """Every element for itself; rounding is not linear, so a sum is complete before it is cast."""
        vanishing = tuple((copy, frozenset({0})) for copy in range(self.copies))
        return Dims((self.labels,), (self.labels,) * self.copies, zero_preserving=vanishing)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """Rounded to nearest, ties to even; copied in single precision."""
        (x,) = inputs
        return (round_significand(x, self.significant) if x.dtype == np.float64 else x.copy(),) * self.copies


@dataclass(frozen=True, slots=True)
class Fp8Transpose(MemoryBound):
    """A copy in fp8 written once more, lying transposed in memory: the same numbers under the same dims."""

    labels: Labels

    kind: ClassVar[str] = "fp8_transpose"
    family: ClassVar[str] = "quantisation"
    anywhere: ClassVar[bool] = True
    launch: ClassVar[MemoryPass] = MemoryPass(Kernel.ELEMENTWISE, accumulates=False)

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Like the input."""
        return (inputs[0],)

    def dims(self) -> Dims:
        """Linear."""
        return Dims((self.labels,), (self.labels,), linear=(frozenset({0}),))

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The same numbers."""
        return (inputs[0].copy(),)


def round_significand(x: Array, significant: int) -> Array:
    """``x`` with so many significant bits."""
    fraction, exponent = np.frexp(x)
    return np.asarray(np.ldexp(np.rint(np.ldexp(fraction, significant)), exponent - significant))
