"""Long sequences: causal load balance (zigzag), ring attention, and slices that go through the pipeline one
by one.
"""

from simcluster.plan.sequence.sequence_order import in_order, in_turns
from simcluster.plan.sequence.sequence_slicing import check_axes, check_slices, in_slices, slice_length

__all__ = ["check_axes", "check_slices", "in_order", "in_slices", "in_turns", "slice_length"]
