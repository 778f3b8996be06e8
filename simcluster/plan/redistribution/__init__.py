"""Redistribution: the cheapest collectives from one tensor layout to another, and their cost."""

from simcluster.plan.redistribution.coalescing import (
    Redistribution,
    RedistributionStep,
    coalesce_redistributions,
)
from simcluster.plan.redistribution.nominal_costs import kernel_cost, movement_cost
from simcluster.plan.redistribution.redistribution_planner import (
    MovementCost,
    RedistributionPlanner,
    collective_bytes,
    expert_parts,
    local_bytes,
    part_type,
)

__all__ = [
    "MovementCost",
    "Redistribution",
    "RedistributionPlanner",
    "RedistributionStep",
    "coalesce_redistributions",
    "collective_bytes",
    "expert_parts",
    "kernel_cost",
    "local_bytes",
    "movement_cost",
    "part_type",
]
