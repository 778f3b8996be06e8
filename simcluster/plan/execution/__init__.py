"""How a framework executes the plan: overlap and waiting, fused kernels, buckets of collectives."""

from simcluster.plan.execution.bucket_partition import BucketCost, ReadyTimes
from simcluster.plan.execution.execution_policy import (
    FREE_EXECUTION,
    SINGLE_BUCKET,
    USUAL_GRAPH_LAUNCH,
    Buckets,
    ExecutionPolicy,
    Fusion,
    GraphLaunch,
    HostWork,
)
from simcluster.plan.execution.fused_softmax import FusedSoftmax
from simcluster.plan.execution.kernel_fusion import KernelOrder, fuse, kernel_nodes

__all__ = [
    "FREE_EXECUTION",
    "SINGLE_BUCKET",
    "USUAL_GRAPH_LAUNCH",
    "BucketCost",
    "Buckets",
    "ExecutionPolicy",
    "FusedSoftmax",
    "Fusion",
    "GraphLaunch",
    "HostWork",
    "KernelOrder",
    "ReadyTimes",
    "fuse",
    "kernel_nodes",
]
