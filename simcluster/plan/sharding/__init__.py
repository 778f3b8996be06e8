"""Sharding of the graph: layouts of all values, propagation to unconfigured operators, padding."""

from simcluster.plan.sharding.batch_statistics import group_batch_statistics
from simcluster.plan.sharding.graph_sharding import shard
from simcluster.plan.sharding.padding import padded_dims
from simcluster.plan.sharding.propagation import PROPAGATED, propagate

__all__ = ["PROPAGATED", "group_batch_statistics", "padded_dims", "propagate", "shard"]
