"""Axes that a plan makes from those of the mesh: some coordinates of one, a part of one, groups with a root.

Each is a text, its name in groups and streams, that knows what it was made from. Axes of the mesh as the
scenario writes them are plain texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Self


class Axis(str):
    """A made axis.

    ``base`` is the axis of the mesh, or the explicit groups, behind it; ``groups`` what shares a communicator
    with it; ``written`` the axes as the scenario writes them; ``coordinates`` those that a restricted axis
    keeps.
    """

    __slots__ = ("base", "coordinates", "groups", "written")
    base: str
    groups: str
    written: tuple[str, ...]
    coordinates: tuple[int, ...] | None

    def __new__(
        cls,
        text: str,
        base: str,
        groups: str,
        written: tuple[str, ...],
        coordinates: tuple[int, ...] | None = None,
    ) -> Self:
        """``text`` is its name."""
        made = super().__new__(cls, text)
        made.base, made.groups, made.written, made.coordinates = base, groups, written, coordinates
        return made

    def __reduce__(self) -> tuple[type[Axis], tuple[object, ...]]:
        return Axis, (str(self), self.base, self.groups, self.written, self.coordinates)


def restricted_axis(axis: str, coordinates: Sequence[int]) -> Axis:
    """The axis ``axis`` at ``coordinates`` only: ``pipeline[0,3]``."""
    text = f"{axis}[{','.join(map(str, coordinates))}]"
    return Axis(text, axis, text, whole_axes((axis,)), tuple(coordinates))


def rooted_groups(axes: Sequence[str], place: int) -> Axis:
    """The groups over ``axes``, or explicit ones, with the member at ``place`` first: ``world@3``."""
    base, groups = "+".join(map(base_axis, axes)), "+".join(map(without_root, axes))
    return Axis(f"{'+'.join(axes)}@{place}", base, groups, whole_axes(axes))


def rooted_axis(axis: str, place: int, size: int) -> str:
    """The axis ``axis`` of a mesh with its coordinate ``place`` first: ``pipeline@3``."""
    if place == 0:
        return axis
    others = (other for other in range(size) if other != place)
    return Axis(f"{axis}@{place}", axis, axis, whole_axes((axis,)), (place, *others))


def piece(axis: str, index: int) -> Axis:
    """A part of an axis that splits written in numbers cut, counted from the outermost: ``tensor.0``."""
    text = f"{axis}.{index}"
    return Axis(text, text, text, (axis,))


def without_root(axis: str) -> str:
    """The groups behind those with a root, which share their communicator; other names as they are."""
    return axis.groups if isinstance(axis, Axis) else axis


def base_axis(axis: str) -> str:
    """The mesh axis behind a possibly restricted one: ``pipeline[0,3]`` -> ``pipeline``; or the explicit
    groups behind those with a root: ``world@3`` -> ``world``.
    """
    return axis.base if isinstance(axis, Axis) else axis


def kept(axis: str) -> tuple[int, ...] | None:
    """The coordinates that a restricted axis keeps; None of others."""
    return axis.coordinates if isinstance(axis, Axis) else None


def whole(axis: str) -> str:
    """The axis, as the user wrote it, that a piece was cut from."""
    return "+".join(axis.written) if isinstance(axis, Axis) else axis


def whole_axes(axes: Iterable[str]) -> tuple[str, ...]:
    """Axes as the user wrote them: pieces of one under its name, each once."""
    written = (axis.written if isinstance(axis, Axis) else (axis,) for axis in axes)
    return tuple(dict.fromkeys(chain.from_iterable(written)))
