"""DeepSpeed's configuration."""

from simcluster.foreign.deepspeed.auto_values import AUTO, fill_auto_values
from simcluster.foreign.deepspeed.host_offload import (
    STAGE,
    deepspeed_offload_meaning,
    state_deepspeed_offload,
)

__all__ = ["AUTO", "STAGE", "deepspeed_offload_meaning", "fill_auto_values", "state_deepspeed_offload"]
