"""Fine-tuning: low-rank adapters beside the weights of matmuls, and weights that are not trained."""

from simcluster.plan.fine_tuning.adapter_targets import is_target
from simcluster.plan.fine_tuning.frozen_weights import freeze, frozen_parameters
from simcluster.plan.fine_tuning.lora_spec import LoraSpec
from simcluster.plan.fine_tuning.low_rank_adapters import adapter_targets, add_adapters

__all__ = ["LoraSpec", "adapter_targets", "add_adapters", "freeze", "frozen_parameters", "is_target"]
