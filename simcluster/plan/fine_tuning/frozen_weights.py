"""Pass: weights that are not trained: no gradient, no state, no master copy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from simcluster.document import matches
from simcluster.errors import PlanError
from simcluster.model import Block, Graph, Instance
from simcluster.plan.rules import check_patterns

PATH = "training.frozen"


def freeze(graph: Graph, patterns: Sequence[str], *, adapted: bool) -> Graph:
    """The graph in which parameters that a pattern names are frozen; of tied ones all are.

    PlanError if a pattern names none, or if none is left and the graph is not ``adapted``.
    """
    names = [
        f"{instance.name}.{name}"
        for instance in graph.instances
        for name in graph.block_of(instance).parameters
    ]
    check_patterns(patterns, names, "parameter", f"{PATH}.{{}}")
    chosen = {name for name in names if any(matches(pattern, name) for pattern in patterns)}
    for group in graph.ties:
        if not chosen.isdisjoint(group):
            chosen.update(group)
    if chosen.issuperset(names) and not adapted:
        raise PlanError("all parameters are frozen, so nothing is trained", path=PATH)
    frozen = {
        instance.name: tuple(
            name
            for name in graph.block_of(instance).parameters
            if f"{instance.known_as}.{name}" in chosen or f"{instance.name}.{name}" in chosen
        )
        for instance in graph.instances
    }

    def rewrite(block: Block, instance: Instance) -> Block:
        return replace(block, frozen=frozenset(frozen[instance.name]))

    return graph.specialised(
        frozen, rewrite, lambda key, keys: f".frozen{keys.index(key) or ''}" if key else ""
    )


def frozen_parameters(graph: Graph) -> frozenset[str]:
    """The full names of the parameters of a graph that are not trained; of tied ones those that count."""
    return frozenset(
        graph.canonical(f"{instance.name}.{name}")
        for instance in graph.instances
        for name in graph.block_of(instance).frozen
    )
