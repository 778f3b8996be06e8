"""What a scenario asks for, as the planner works with it: strategies, subgraphs, offload and expert routing,
by name pattern.
"""

from simcluster.plan.rules.expert_routing import BALANCED, ROUTING_PATH, Routing, counts
from simcluster.plan.rules.offload_rule import CATEGORIES, OFFLOAD_PATH, Offload, Offloading, Rates
from simcluster.plan.rules.strategy_rule import (
    BATCH,
    PIPELINE,
    SEQ,
    SEQUENCE,
    Entry,
    Operands,
    Roles,
    Rule,
    Split,
    Token,
    first_rule,
    sequence_slices,
    stage_devices,
)
from simcluster.plan.rules.subgraph_rule import Shard

__all__ = [
    "BALANCED",
    "BATCH",
    "CATEGORIES",
    "OFFLOAD_PATH",
    "PIPELINE",
    "ROUTING_PATH",
    "SEQ",
    "SEQUENCE",
    "Entry",
    "Offload",
    "Offloading",
    "Operands",
    "Rates",
    "Roles",
    "Routing",
    "Rule",
    "Shard",
    "Split",
    "Token",
    "counts",
    "first_rule",
    "sequence_slices",
    "stage_devices",
]
