"""The optimizer of the small plan: constants under which rounding errors stay small."""

from __future__ import annotations

from typing import TypeVar

from simcluster.plan import OptimizerSpec, RuleSpec, update_of
from simcluster.simulation.verification.shrink_patterns import GraphNames, fitting

R = TypeVar("R", bound=RuleSpec)

VERIFIABLE_CONSTANTS = {"eps": 1e-3, "learning_rate": 0.01}
"""Adam must not divide by rounding errors, nor an update vanish in them."""


def small_optimizer(optimizer: OptimizerSpec, names: GraphNames) -> OptimizerSpec:
    """The optimizer in a form that can be verified, without groups of parameters that are gone."""
    groups = tuple(map(verifiable, fitting(optimizer.groups, names.parameters)))
    return verifiable(optimizer).model_copy(update={"groups": groups})


def verifiable(rule: R) -> R:
    """A rule with constants under which rounding errors stay small."""
    decay = max(rule.weight_decay, update_of(rule).least_decay)
    return rule.model_copy(update={**VERIFIABLE_CONSTANTS, "weight_decay": decay})
