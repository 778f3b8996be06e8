"""How a framework executes the plan: overlap and waiting, fused kernels, buckets of collectives."""

from simcluster.plan.execution.bucket_partition import BucketCost, ReadyTimes
from simcluster.plan.execution.execution_policy import FREE, SINGLE, Buckets, Conduct, Fusion
from simcluster.plan.execution.kernel_fusion import fuse, kernel_nodes
from simcluster.plan.execution.kernel_order import KernelOrder

__all__ = [
    "FREE",
    "SINGLE",
    "BucketCost",
    "Buckets",
    "Conduct",
    "Fusion",
    "KernelOrder",
    "ReadyTimes",
    "fuse",
    "kernel_nodes",
]
