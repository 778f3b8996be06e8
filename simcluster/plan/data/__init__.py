"""The batch: micro-batches of every rank, layouts of the inputs, and the input pipeline."""

from simcluster.plan.data.batch_shares import (
    MicroBatches,
    check_shares,
    check_unequal_batches,
    micro_batches_of,
)
from simcluster.plan.data.dataset_strategy import given_feed_layouts
from simcluster.plan.data.distributed_sampler import shard_rows
from simcluster.plan.data.input_pipeline import DataSpec, InputPipeline, check_inputs

__all__ = [
    "DataSpec",
    "InputPipeline",
    "MicroBatches",
    "check_inputs",
    "check_shares",
    "check_unequal_batches",
    "given_feed_layouts",
    "micro_batches_of",
    "shard_rows",
]
