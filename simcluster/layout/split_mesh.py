"""A mesh whose axes are divided where strategies written in numbers (MindSpore's) need it.

Axes are atomic: ``tensor 8`` that an operator splits in two outer halves becomes ``tensor.0 2 x tensor.1 4``,
outer first. The name ``tensor`` means both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise

from simcluster.deferred_dataclass import dataclass
from simcluster.layout.axis import piece, whole
from simcluster.layout.device_matrix import SubAxis
from simcluster.layout.mesh import Mesh


@dataclass(frozen=True, slots=True)
class SplitMesh:
    """A mesh cut for some digits of the ranks of a stage.

    ``spans`` are the pieces of all axes but the stages', outermost first: name, stride, size.
    """

    mesh: Mesh
    spans: tuple[tuple[str, SubAxis], ...]
    stage_axis: str = ""

    @classmethod
    def of(cls, mesh: Mesh, stage_axis: str, digits: Iterable[SubAxis]) -> SplitMesh:
        """The coarsest cut in which every digit is some whole axes.

        Raises ValueError, with the numbers, where digits or axes overlap without one dividing the other.
        """
        inside = spans(mesh, stage_axis)
        marks = {edge for _, span in inside for edge in _edges(span)}
        marks |= {edge for digit in digits for edge in _edges(digit)}
        ordered = sorted(marks)
        ranks = math.prod(span.size for _, span in inside)
        if ordered and ordered[-1] > ranks:
            raise ValueError(f"it reaches over {ordered[-1]} ranks, and a stage has {ranks}")
        for low, high in pairwise(ordered):
            if high % low:
                raise ValueError(f"{low} does not divide {high}")
        axes: list[tuple[str, int]] = []
        places: list[tuple[str, SubAxis]] = []
        place = dict(inside)
        for name, size in mesh.axes:
            if name not in place or size == 1:
                axes.append((name, size))
                continue
            low, high = _edges(place[name])
            within = [mark for mark in ordered if low <= mark <= high]
            digits = [SubAxis(first, second // first) for first, second in pairwise(within)][::-1]
            for index, digit in enumerate(digits):
                made = piece(name, index) if len(digits) > 1 else name
                axes.append((made, digit.size))
                places.append((made, digit))
        return cls(Mesh(tuple(axes), off_axes=mesh.off_axes), tuple(places), stage_axis)

    def axes(self, digit: SubAxis) -> tuple[str, ...]:
        """The axes that make up a digit, outermost first."""
        low, high = _edges(digit)
        return tuple(
            name for name, span in self.spans if low <= span.stride and span.stride * span.size <= high
        )


def spans(mesh: Mesh, stage_axis: str) -> list[tuple[str, SubAxis]]:
    """The axes with several ranks within a stage, outermost first, as digits of its ranks."""
    spans: list[tuple[str, SubAxis]] = []
    stride = 1
    for name, size in reversed(mesh.axes):
        if name != stage_axis and size > 1:
            spans.append((name, SubAxis(stride, size)))
            stride *= size
    return spans[::-1]


def axis_pieces(mesh: Mesh, axis: str) -> tuple[str, ...]:
    """What an axis has been cut into, outermost first; itself where it is whole or unknown."""
    return tuple(name for name in mesh.names if axis in (name, whole(name))) or (axis,)


def unsplit_mesh(mesh: Mesh) -> Mesh:
    """The mesh as the user wrote it."""
    sizes: dict[str, int] = {}
    for name, size in mesh.axes:
        sizes[whole(name)] = sizes.get(whole(name), 1) * size
    return Mesh.of(sizes).with_off_axes(mesh.off_axes)


def _edges(digit: SubAxis) -> tuple[int, int]:
    return digit.stride, digit.stride * digit.size
