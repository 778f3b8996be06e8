"""PyTorch's own parallelism and trainers built on it."""

from simcluster.foreign.pytorch.fully_sharded import (
    SHARDING,
    devices_given,
    state_cpu_offload,
    state_fully_sharded,
)
from simcluster.foreign.pytorch.hub_models import (
    all_linear_targets,
    hub_vocabulary,
    layers_of_model,
    read_hub_name,
    state_hub_model,
)
from simcluster.foreign.pytorch.script_arguments import plain_argument, rank_variables
from simcluster.foreign.pytorch.sharding_strategies import (
    RECOMPUTED,
    REPLICAS,
    SHARDS,
    fsdp_meaning,
    state_strategy,
)
from simcluster.foreign.pytorch.swift_arguments import (
    state_swift,
    state_swift_format,
    swift_command,
    swift_meaning,
)
from simcluster.foreign.pytorch.trainer_arguments import (
    COMPILED,
    DEEPSPEED_FILE,
    argument_meaning,
    reads_attention_kernel,
    remark_lengths,
    state_all_recomputed,
    state_lengths,
    state_reduced_format,
    state_trainer,
    state_trainer_profile,
    state_trainer_sharding,
)
from simcluster.foreign.pytorch.trainer_programs import python_arguments, refuse_preferences

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
    "hub_vocabulary",
    "layers_of_model",
    "plain_argument",
    "python_arguments",
    "rank_variables",
    "read_hub_name",
    "reads_attention_kernel",
    "refuse_preferences",
    "remark_lengths",
    "state_all_recomputed",
    "state_cpu_offload",
    "state_fully_sharded",
    "state_hub_model",
    "state_lengths",
    "state_reduced_format",
    "state_strategy",
    "state_swift",
    "state_swift_format",
    "state_trainer",
    "state_trainer_profile",
    "state_trainer_sharding",
    "swift_command",
    "swift_meaning",
]
