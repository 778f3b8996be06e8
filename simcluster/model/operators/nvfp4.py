"""Casting to nvfp4 before a matrix product, and which kernels that takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from simcluster.deferred_dataclass import dataclass
from simcluster.model.graph import Labels, TensorType, memory_bound
from simcluster.model.operators.fp8 import Fp8Cast
from simcluster.work import DType, Kernel, Work

E2M1 = 2
"""Significant bits of the elements of nvfp4, the leading one included (Open Compute Project, MX formats)."""


@dataclass(frozen=True, slots=True)
class Nvfp4Cast(Fp8Cast):
    """A tensor rounded to nvfp4; inputs x, outputs one or two ``copies``, the second one transposed.

    As NVIDIA's recipe has it (arXiv 2509.25149; kernels of Transformer Engine, from memory): 16 elements
    along the dim that a product sums over share a scale, and all of a tensor a second one. So every cast
    reads the tensor once for its largest value, and a kernel for each copy reads it again; the copy for
    weight gradients goes through a random Hadamard transform on the way (``transformed``: activations and
    gradients), whose 16 x 16 products hide behind the traffic. Weights have square blocks of 16 x 16, and
    one kernel writes both of their copies.

    Values are rounded as in fp8, with fewer significant bits: the transform, its inverse and stochastic
    rounding only say how rounding errors are distributed.
    """

    labels: Labels
    significant: int = E2M1
    copies: int = 1
    transformed: bool = True

    kind: ClassVar[str] = "nvfp4_cast"
    narrow: ClassVar[DType] = DType.NVFP4

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """A pass for each copy, of weights one for both; the first reads x for its largest value, too."""
        written = [(copy,) for copy in outputs] if self.transformed else [tuple(outputs)]
        flops = self.launch.flops_per_element
        return tuple(
            memory_bound(
                Kernel.ELEMENTWISE, (*inputs, *inputs) if first else inputs, made, flops_per_element=flops
            )
            for first, made in zip((True, False), written, strict=False)
        )
