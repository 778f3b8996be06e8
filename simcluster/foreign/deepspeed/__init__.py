"""DeepSpeed's configuration."""

from simcluster.foreign.deepspeed.auto_values import AUTO, fill_auto_values
from simcluster.foreign.deepspeed.host_offload import (
    OPTIMIZER,
    WEIGHTS,
    deepspeed_offload_meaning,
    read_place,
    state_deepspeed_offload,
)
from simcluster.foreign.deepspeed.referenced_file import (
    finish_deepspeed,
    include_settings,
    state_referenced_deepspeed,
)
from simcluster.foreign.deepspeed.zero_stages import (
    STAGE,
    ZERO,
    read_shard_size,
    read_ulysses_degree,
    read_zero_stage,
    state_gradient_format,
    state_zero_sharding,
)

__all__ = [
    "AUTO",
    "OPTIMIZER",
    "STAGE",
    "WEIGHTS",
    "ZERO",
    "deepspeed_offload_meaning",
    "fill_auto_values",
    "finish_deepspeed",
    "include_settings",
    "read_place",
    "read_shard_size",
    "read_ulysses_degree",
    "read_zero_stage",
    "state_deepspeed_offload",
    "state_gradient_format",
    "state_referenced_deepspeed",
    "state_zero_sharding",
]
