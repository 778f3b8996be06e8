"""Tied parameters with copies on several stages: their gradients meet across stages, in one order everywhere.

Stages reach the last backward of their copies in different orders. Collectives of one group must be issued in
the same order by all its members, so these wait for the last of them on a stage and follow the graph's order.
"""

from __future__ import annotations

from collections.abc import Mapping

from simcluster.model import Graph

Ties = Mapping[tuple[str, str], int]
"""(instance, gradient) -> the place of its tie among all ties."""


def crossing_ties(graph: Graph) -> Ties:
    """The gradients of parameters whose copies lie on more than one stage."""
    ties: dict[tuple[str, str], int] = {}
    if not graph.ties:
        return ties
    copies = {
        f"{instance.name}.{name}": (instance, block.gradients[name])
        for instance in graph.instances
        for block in (graph.block_of(instance),)
        for name in block.parameters
        if name in block.gradients
    }
    for place, group in enumerate(graph.ties):
        held = [copies[name] for name in group if name in copies]
        if len({instance.stage for instance, _ in held}) > 1:
            ties |= {(instance.name, gradient): place for instance, gradient in held}
    return ties
