"""Long sequences: causal load balance (zigzag), ring attention, and slices that go through the pipeline one
by one.
"""

from simcluster.plan.sequence.sequence_order import balance_causal_order, to_ring_attention
from simcluster.plan.sequence.sequence_slicing import (
    check_slices,
    check_slicing_axes,
    slice_length,
    slice_sequence,
)

__all__ = [
    "balance_causal_order",
    "check_slices",
    "check_slicing_axes",
    "slice_length",
    "slice_sequence",
    "to_ring_attention",
]
