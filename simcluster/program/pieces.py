"""Codes in pieces, cut where a kernel waits for a collective: those of overlapped actions alternate."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from simcluster.layout import Movement
from simcluster.model import Node
from simcluster.plan.fuse import kernel_nodes


def phase_of(name: str) -> str:
    """The phase of a code, which may be a piece of it: ``forward.2`` is the third of ``forward``."""
    return name.partition(".")[0]


def in_pieces(phases: Mapping[str, list[Node]], wanted: Collection[str]) -> dict[str, list[Node]]:
    """The nodes by code; those of ``wanted`` phases cut before every kernel that reads what a collective of
    its piece makes. No kernel is cut.
    """
    found: dict[str, list[Node]] = {}
    for name, nodes in phases.items():
        found[name] = piece = []
        if name not in wanted:
            piece += nodes
            continue
        count = 0
        coming: set[str] = set()
        for kernel in kernel_nodes(nodes):
            first = kernel[0].operator
            if isinstance(first, Movement) and first.is_collective:
                coming.update(value for node in kernel for value in node.outputs)
            elif any(value in coming for node in kernel for value in node.inputs):
                count += 1
                coming.clear()
                found[f"{name}.{count}"] = piece = []
            piece += kernel
    return found
