"""Redistribution: the cheapest collectives from one tensor layout to another, and what they cost."""

from simcluster.plan.redistribution.coalescing import Journey, Step, together
from simcluster.plan.redistribution.nominal_costs import kernel_cost, movement_cost
from simcluster.plan.redistribution.redistribution_planner import (
    MovementCost,
    Router,
    collective_bytes,
    local_bytes,
    part_type,
    routed_parts,
)

__all__ = [
    "Journey",
    "MovementCost",
    "Router",
    "Step",
    "collective_bytes",
    "kernel_cost",
    "local_bytes",
    "movement_cost",
    "part_type",
    "routed_parts",
    "together",
]
