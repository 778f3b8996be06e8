"""Copies between places, as nodes: one for every leg of the way."""

from __future__ import annotations

from dataclasses import replace

from simcluster.model import MemoryPlace, Node, Phase, Role, Value, relocations_between
from simcluster.plan.rules import OffloadRule


def relocation_nodes(
    values: dict[str, Value],
    source: str,
    target: str,
    to: MemoryPlace,
    rule: OffloadRule,
    phase: Phase,
    why: str,
    role: Role = Role.ACTIVATION,
) -> list[Node]:
    """The nodes that copy a value to another place, where it is called ``target``.

    It is added to ``values`` with all that the way takes, in this ``role``; a target that is known already is
    written as it is.
    """
    kind = values[source]
    nodes = []
    way = relocations_between(kind.place, to, rule.rates.disk, rule.rates.bus, rule.ahead)
    for number, leg in enumerate(way):
        name = target if number == len(way) - 1 else f"{target}.staged"
        values.setdefault(name, replace(kind, role=role, place=leg.target, copy_of=""))
        nodes.append(Node(f"{name} copy", leg, (source,), (name,), phase, origin=kind.copy_of, why=why))
        source = name
    return nodes
