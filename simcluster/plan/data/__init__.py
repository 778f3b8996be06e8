"""The batch: how many micro-batches every rank trains, and how its part of the inputs gets to it."""

from simcluster.plan.data.batch_shares import Batches, batches, check_meetings, check_shares
from simcluster.plan.data.dataset_strategy import given
from simcluster.plan.data.distributed_sampler import shard_rows
from simcluster.plan.data.input_pipeline import DataSpec, Inputs, check_inputs

__all__ = [
    "Batches",
    "DataSpec",
    "Inputs",
    "batches",
    "check_inputs",
    "check_meetings",
    "check_shares",
    "given",
    "shard_rows",
]
