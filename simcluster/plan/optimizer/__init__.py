"""The optimizer step: reduction, clipping and sharding of gradients (ZeRO, FSDP units), and parameter
updates.
"""

from simcluster.plan.optimizer.fsdp_units import gathered_name, whole_name
from simcluster.plan.optimizer.gradient_clipping import clip
from simcluster.plan.optimizer.optimizer_plan import (
    OptimizerPlan,
    ParameterGroup,
    WrittenReduction,
    parameter_names,
)
from simcluster.plan.optimizer.optimizer_step import optimize
from simcluster.plan.optimizer.parameter_owners import (
    Owners,
    ParameterOwner,
    assign_owners,
    check_owners,
)
from simcluster.plan.optimizer.sparse_gradients import (
    report_dense_updates,
    sparse_parameters,
    use_sparse_gradients,
)
from simcluster.plan.optimizer.unsharded_parameters import whole_parameters
from simcluster.plan.optimizer.update_decomposition import decompose_updates
from simcluster.plan.optimizer.weight_matrices import matrices_of

__all__ = [
    "OptimizerPlan",
    "Owners",
    "ParameterGroup",
    "ParameterOwner",
    "WrittenReduction",
    "assign_owners",
    "check_owners",
    "clip",
    "decompose_updates",
    "gathered_name",
    "matrices_of",
    "optimize",
    "parameter_names",
    "report_dense_updates",
    "sparse_parameters",
    "use_sparse_gradients",
    "whole_name",
    "whole_parameters",
]
