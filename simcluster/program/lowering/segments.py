"""Codes cut where a kernel waits for a collective, so that those of overlapped actions can alternate."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Self

from simcluster.layout import Movement
from simcluster.model import Node
from simcluster.plan import kernel_nodes


class SegmentName(str):
    """The name of a further segment of a code, with its phase: ``forward.2`` is the third of ``forward``."""

    __slots__ = ("phase",)
    phase: str

    def __new__(cls, phase: str, number: int) -> Self:
        """``number`` counts from 1: the first segment has the name of the phase."""
        made = super().__new__(cls, f"{phase}.{number}")
        made.phase = phase
        return made


def phase_of(name: str) -> str:
    """The phase of a code, which may be a segment of it."""
    return name.phase if isinstance(name, SegmentName) else name


def split_into_segments(phases: Mapping[str, list[Node]], wanted: Collection[str]) -> dict[str, list[Node]]:
    """The nodes by code; those of ``wanted`` phases cut before every kernel that reads what a collective of
    its segment makes. No kernel is cut, and no piece that is a graph. A collective that needs nothing of its
    segment belongs to the one before: it starts with that one's, as weights of tokens travel with these.
    """
    segments: dict[str, list[Node]] = {}
    for name, nodes in phases.items():
        segments[name] = segment = []
        if name not in wanted:
            segment += nodes
            continue
        count = 0
        coming: set[str] = set()
        made: set[str] = set()
        before = segment
        for kernel in kernel_nodes(nodes):
            first = kernel[0].operator
            inside = bool(segment and kernel[0].piece and kernel[0].piece == segment[-1].piece)
            if isinstance(first, Movement) and first.is_collective:
                if before is not segment and made.isdisjoint(kernel[0].inputs):
                    before += kernel
                    continue
                coming.update(value for node in kernel for value in node.outputs)
            elif not inside and any(value in coming for node in kernel for value in node.inputs):
                count += 1
                coming.clear()
                made.clear()
                before = segment
                segments[SegmentName(name, count)] = segment = []
            made.update(value for node in kernel for value in node.outputs)
            segment += kernel
    return segments
