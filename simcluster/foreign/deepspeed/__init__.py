"""DeepSpeed's configuration."""

from simcluster.foreign.deepspeed.auto_values import AUTO, filled
from simcluster.foreign.deepspeed.host_offload import STAGE, meaning, offload

__all__ = ["AUTO", "STAGE", "filled", "meaning", "offload"]
