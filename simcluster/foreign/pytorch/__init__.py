"""PyTorch's own parallelism and trainers built on it."""

from simcluster.foreign.pytorch.fully_sharded import (
    SHARDING,
    devices_given,
    state_cpu_offload,
    state_fully_sharded,
)
from simcluster.foreign.pytorch.hub_models import (
    all_linear_targets,
    layers_of_model,
    read_hub_name,
    state_hub_model,
)
from simcluster.foreign.pytorch.sharding_strategies import (
    RECOMPUTED,
    REPLICAS,
    SHARDS,
    fsdp_meaning,
    state_strategy,
)
from simcluster.foreign.pytorch.trainer_arguments import (
    COMPILED,
    DEEPSPEED_FILE,
    argument_meaning,
    reads_attention_kernel,
    remark_lengths,
    state_all_recomputed,
    state_lengths,
    state_trainer,
    state_trainer_profile,
    state_trainer_sharding,
)

__all__ = [
    "COMPILED",
    "DEEPSPEED_FILE",
    "RECOMPUTED",
    "REPLICAS",
    "SHARDING",
    "SHARDS",
    "all_linear_targets",
    "argument_meaning",
    "devices_given",
    "fsdp_meaning",
    "layers_of_model",
    "read_hub_name",
    "reads_attention_kernel",
    "remark_lengths",
    "state_all_recomputed",
    "state_cpu_offload",
    "state_fully_sharded",
    "state_hub_model",
    "state_lengths",
    "state_strategy",
    "state_trainer",
    "state_trainer_profile",
    "state_trainer_sharding",
]
