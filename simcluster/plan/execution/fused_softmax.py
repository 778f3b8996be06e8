"""Which attention scores a framework's fused softmax takes, and what runs in its place for others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from simcluster.deferred_dataclass import dataclass
from simcluster.model import Operator, TensorType

_FEWEST_KEYS = 17
"""Rows of up to 16 keys are left to PyTorch."""

_TWO_ROWS_A_WARP = 128
"""Up to this number of keys a block of four warps has eight rows; with more keys it has four."""


@dataclass(frozen=True, slots=True)
class FusedSoftmax:
    """A kernel that scales, masks and normalises scores in one pass where their shape fits its blocks.

    The rule is that of ``is_kernel_available`` in megatron/model/fused_softmax.py (from memory). Default: a
    kernel that takes everything.
    """

    most_keys: int | None = None
    """The most keys that it takes; None: any shape."""
    traffic: Mapping[str, float] = field(default_factory=dict)
    """For shapes that it does not take: how often the least bytes are moved, by operator or family."""
    calls: Mapping[str, float] = field(default_factory=dict)
    """For those, host time of one in operators."""

    def takes(self, scores: TensorType) -> bool:
        """Whether it takes the local scores [batch, heads, group, seq, keys] of one rank."""
        if self.most_keys is None:
            return True
        batch, heads, group, queries, keys = scores.shape
        rows = 8 if keys <= _TWO_ROWS_A_WARP else 4
        in_blocks = queries % 4 == 0 and (batch * heads * group) % rows == 0
        return scores.dtype.itemsize == 2 and _FEWEST_KEYS <= keys <= self.most_keys and in_blocks

    def leaves(self, operator: object, operands: Sequence[TensorType]) -> bool:
        """Whether an operator is an attention softmax, or its gradient, that it does not take."""
        concerned = isinstance(operator, Operator) and any(name in self.traffic for name in operator.names)
        return concerned and not self.takes(operands[0])
