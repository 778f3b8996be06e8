"""Gradients and weights that travel together: gradient buckets, FSDP gathers and scatters, when a reduction
is due, tied parameters.
"""

from simcluster.program.buckets.communication_buckets import Travel
from simcluster.program.buckets.fsdp_buckets import Part, unit_parts
from simcluster.program.buckets.fsdp_executions import with_units
from simcluster.program.buckets.tied_gradients import crossing_ties

__all__ = ["Part", "Travel", "crossing_ties", "unit_parts", "with_units"]
