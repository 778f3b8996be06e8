"""Casting to mxfp8 before a matrix product."""

from __future__ import annotations

from typing import ClassVar

from simcluster.deferred_dataclass import dataclass
from simcluster.model.graph import Labels
from simcluster.model.operators.fp8 import E4M3, Fp8Cast
from simcluster.work import DType


@dataclass(frozen=True, slots=True)
class Mxfp8Cast(Fp8Cast):
    """A tensor rounded to mxfp8; inputs x, outputs one or two ``copies``, the second one transposed.

    32 elements along the dim that a product sums over share a scale, a power of two (Open Compute Project, MX
    formats 1.0). It needs no largest value of the whole tensor, and both copies come from one pass. Gradients
    are in E4M3 as well (Transformer Engine's MXFP8BlockScaling, from memory).
    """

    labels: Labels
    significant: int = E4M3
    copies: int = 1

    kind: ClassVar[str] = "mxfp8_cast"
    narrow: ClassVar[DType] = DType.MXFP8
