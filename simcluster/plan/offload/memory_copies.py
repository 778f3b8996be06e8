"""Copies between memories as nodes: one for each leg, such as device to host and host to disk."""

from __future__ import annotations

from collections.abc import Collection
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
    """The nodes that copy a value to another memory, under the name ``target``.

    The target and the copies on the way are added to ``values`` in this ``role``; a target that exists is
    overwritten.
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


def free_name(name: str, taken: Collection[str], separator: str = "") -> str:
    """The name, with the first number from 2 on that makes it one that is not taken."""
    number, free = 2, name
    while free in taken:
        free, number = f"{name}{separator}{number}", number + 1
    return free
