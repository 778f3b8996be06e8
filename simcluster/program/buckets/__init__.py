"""Gradients and weights that travel together: gradient buckets, FSDP gathers and scatters, when a reduction
is due, tied parameters.
"""

from simcluster.program.buckets.communication_buckets import CommunicationBuckets
from simcluster.program.buckets.equal_stages import EqualStages
from simcluster.program.buckets.fsdp_buckets import BucketMember, unit_bucket_members
from simcluster.program.buckets.fsdp_executions import add_unit_executions
from simcluster.program.buckets.gradient_buckets import crossing_ties

__all__ = [
    "BucketMember",
    "CommunicationBuckets",
    "EqualStages",
    "add_unit_executions",
    "crossing_ties",
    "unit_bucket_members",
]
