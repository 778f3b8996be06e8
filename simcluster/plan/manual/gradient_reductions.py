"""Gradient reductions that a hand-written program asks for, by parameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from simcluster.document import matches
from simcluster.errors import PlanError, Problem, nearest
from simcluster.layout import Movement, MovementKind
from simcluster.plan.manual.groups import Groups
from simcluster.plan.optimizer import WrittenReduction
from simcluster.plan.spec import GradientSpec


def written_reductions(
    entries: Sequence[GradientSpec], parameters: Sequence[str], groups: Groups
) -> Mapping[str, WrittenReduction]:
    """Parameter -> the reduction of its gradient; PlanError for a pattern that matches no parameter."""
    problems = [
        Problem(
            f"no parameter fits '{entry.match}'", f"gradients.{place}.match", nearest(entry.match, parameters)
        )
        for place, entry in enumerate(entries)
        if not any(matches(entry.match, name) for name in parameters)
    ]
    if problems:
        raise PlanError(*problems)
    reductions: dict[str, WrittenReduction] = {}
    for name in parameters:
        fits = [(place, entry) for place, entry in enumerate(entries) if matches(entry.match, name)]
        if not fits or fits[-1][1].op == "none":
            continue
        place, entry = fits[-1]
        axes = groups.axes(entry.group, f"gradients.{place}.group")
        divisor = (entry.degree or groups.size(axes)) if entry.mean else 1
        reductions[name] = WrittenReduction(Movement(MovementKind.ALL_REDUCE, axes), divisor)
    return reductions
