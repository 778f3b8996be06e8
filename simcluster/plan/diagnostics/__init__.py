"""What a user is told about a plan: notes, proposals, the profile in words, and refusals of what is too
large.
"""

from simcluster.plan.diagnostics.load_balance_hints import hints
from simcluster.plan.diagnostics.mesh_order import better_order
from simcluster.plan.diagnostics.plan_notes import followed, notes, padded, without_effect
from simcluster.plan.diagnostics.profile_description import fusion_told, phrase, told
from simcluster.plan.diagnostics.size_limits import (
    MOST_BYTES,
    MOST_RANKS,
    check_passes,
    check_rates,
    check_tensors,
    too_large,
)

__all__ = [
    "MOST_BYTES",
    "MOST_RANKS",
    "better_order",
    "check_passes",
    "check_rates",
    "check_tensors",
    "followed",
    "fusion_told",
    "hints",
    "notes",
    "padded",
    "phrase",
    "told",
    "too_large",
    "without_effect",
]
