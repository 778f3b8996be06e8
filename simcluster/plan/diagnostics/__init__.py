"""What a user is told about a plan: notes, proposals, the framework profile in words, and size limits."""

from simcluster.plan.diagnostics.load_balance_hints import balance_hints
from simcluster.plan.diagnostics.mesh_order import axis_order_note
from simcluster.plan.diagnostics.plan_notes import (
    padding_notes,
    plan_notes_of,
    propagation_notes,
    settings_without_effect,
)
from simcluster.plan.diagnostics.profile_description import describe_fusion, describe_profile
from simcluster.plan.diagnostics.size_limits import (
    MOST_BYTES,
    MOST_RANKS,
    check_passes,
    check_rates,
    check_tensors,
    size_problems,
)

__all__ = [
    "MOST_BYTES",
    "MOST_RANKS",
    "axis_order_note",
    "balance_hints",
    "check_passes",
    "check_rates",
    "check_tensors",
    "describe_fusion",
    "describe_profile",
    "padding_notes",
    "plan_notes_of",
    "propagation_notes",
    "settings_without_effect",
    "size_problems",
]
