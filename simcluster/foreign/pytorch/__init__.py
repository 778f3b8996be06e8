"""PyTorch's own parallelism and trainers built on it."""

from simcluster.foreign.pytorch.fully_sharded import (
    SHARDING,
    devices_given,
    state_cpu_offload,
    state_fully_sharded,
)

__all__ = ["SHARDING", "devices_given", "state_cpu_offload", "state_fully_sharded"]
