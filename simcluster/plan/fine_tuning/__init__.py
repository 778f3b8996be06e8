"""Fine-tuning: low-rank adapters beside the weights of matmuls, and weights that are not trained."""

from simcluster.plan.fine_tuning.frozen_weights import freeze, training_flops
from simcluster.plan.fine_tuning.low_rank_adapters import adapter_targets, add_adapters

__all__ = ["adapter_targets", "add_adapters", "freeze", "training_flops"]
