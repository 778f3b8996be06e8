"""What a scenario asks for, by name pattern: strategies, subgraphs, offload and expert routing, for the
planner.
"""

from simcluster.plan.rules.expert_routing import BALANCED_ROUTING, ROUTING_PATH, ExpertRouting, expert_counts
from simcluster.plan.rules.name_patterns import check_patterns, instance_patterns
from simcluster.plan.rules.offload_rule import CATEGORIES, OFFLOAD_PATH, CopyRates, OffloadPlan, OffloadRule
from simcluster.plan.rules.strategy_rule import (
    BATCH,
    PIPELINE,
    SEQ,
    SEQUENCE,
    AxisRoles,
    Entry,
    Operands,
    Split,
    StrategyRule,
    Token,
    first_rule,
    sequence_slices,
    stage_devices,
)
from simcluster.plan.rules.subgraph_rule import ShardRequest

__all__ = [
    "BALANCED_ROUTING",
    "BATCH",
    "CATEGORIES",
    "OFFLOAD_PATH",
    "PIPELINE",
    "ROUTING_PATH",
    "SEQ",
    "SEQUENCE",
    "AxisRoles",
    "CopyRates",
    "Entry",
    "ExpertRouting",
    "OffloadPlan",
    "OffloadRule",
    "Operands",
    "ShardRequest",
    "Split",
    "StrategyRule",
    "Token",
    "check_patterns",
    "expert_counts",
    "first_rule",
    "instance_patterns",
    "sequence_slices",
    "stage_devices",
]
