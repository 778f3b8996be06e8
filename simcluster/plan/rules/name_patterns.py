"""Patterns of names that a scenario gives: one that matches nothing is a mistake."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from simcluster.document import matches
from simcluster.errors import PlanError, Problem, nearest


def check_patterns(patterns: Sequence[str], names: Collection[str], noun: str, path: str) -> None:
    """PlanError with every pattern that matches none of the names, each at ``path`` with its index."""
    problems = [
        Problem(f"'{pattern}' matches no {noun}", path.format(index), nearest(pattern, names))
        for index, pattern in enumerate(patterns)
        if not any(matches(pattern, name) for name in names)
    ]
    if problems:
        raise PlanError(*problems)


def instance_patterns(names: Sequence[str], every: Sequence[str]) -> list[str]:
    """Patterns that match exactly ``names`` among ``every`` instance."""
    stems = {name.rpartition(".")[0] for name in names}
    if len(names) > 1 and len(stems) == 1:
        (stem,) = stems
        if stem and [name for name in every if name.startswith(f"{stem}.")] == list(names):
            return [f"{stem}.*"]
    return list(names)
