"""The optimizer step: reduction, clipping and sharding of gradients (ZeRO, FSDP units), and parameter
updates.
"""

from simcluster.plan.optimizer.fsdp_units import gathered_name, whole_name
from simcluster.plan.optimizer.gradient_clipping import clip
from simcluster.plan.optimizer.optimizer_plan import Group, OptimizerPlan, WrittenReduction
from simcluster.plan.optimizer.optimizer_step import optimize
from simcluster.plan.optimizer.sparse_gradients import by_rows, kept_by_rows, whole_by_rows
from simcluster.plan.optimizer.update_decomposition import decompose_updates

__all__ = [
    "Group",
    "OptimizerPlan",
    "WrittenReduction",
    "by_rows",
    "clip",
    "decompose_updates",
    "gathered_name",
    "kept_by_rows",
    "optimize",
    "whole_by_rows",
    "whole_name",
]
